"""Locks of conda packages, in the format of `conda list --explicit --md5`, which every conda tool reads."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runyard.core.url_secrets import has_secret, without_logins
from runyard.environments.conda.channels import without_login

HEADER = "@EXPLICIT"
PACKAGE = re.compile(r"[a-z]+://\S+\.(?:tar\.bz2|conda)#[0-9a-f]{32}")


def is_explicit(lock: str) -> bool:
    """Whether the lock has conda packages."""
    return HEADER in lock.splitlines()


def conda_part(lock: str) -> str:
    lines = [line for line in lock.splitlines() if PACKAGE.fullmatch(line)]
    return "".join(f"{line}\n" for line in [HEADER, *lines])


def pip_part(lock: str) -> str:
    """The lines that uv installs."""
    return "".join(
        f"{line}\n" for line in lock.splitlines() if line.strip() != HEADER and not PACKAGE.fullmatch(line.strip())
    )


def installed_versions(prefix: Path) -> dict[str, str]:
    """Versions of the conda packages in a prefix, by conda name."""
    return {record["name"]: str(record["version"]) for record in _records(prefix).values()}


def explicit_lock(prefix: Path) -> str:
    """Lock of a prefix: URLs with checksums, dependencies first, without logins."""
    records = _records(prefix)
    lines = [_line(records[name]) for name in _in_order(records)]
    return "".join(f"{line}\n" for line in [HEADER, *lines])


def remove_logins(prefix: Path) -> None:
    """Remove passwords from the URLs in the metadata of a prefix."""
    for file in (prefix / "conda-meta").iterdir():
        if file.is_file() and has_secret(text := file.read_text(encoding="utf-8", errors="surrogateescape")):
            file.write_text(without_logins(text), encoding="utf-8", errors="surrogateescape")


def _records(prefix: Path) -> dict[str, Mapping[str, Any]]:
    found = (json.loads(file.read_bytes()) for file in sorted((prefix / "conda-meta").glob("*.json")))
    return {record["name"]: record for record in found}


def _in_order(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    left = {name: _needs(record) & records.keys() - {name} for name, record in records.items()}
    while left:
        # Packages that depend on each other, such as pip and python, are sorted by name.
        ready = sorted(name for name, needs in left.items() if not needs & left.keys()) or [min(left)]
        for name in ready:
            del left[name]
            yield name


def _needs(record: Mapping[str, Any]) -> set[str]:
    return {str(depends).split()[0] for depends in record.get("depends") or () if str(depends).strip()}


def _line(record: Mapping[str, Any]) -> str:
    return f"{without_login(str(record['url']))}#{record['md5']}"
