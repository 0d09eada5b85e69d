"""The lock of what conda installed, in the form that `conda list --explicit --md5` writes and every tool reads."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runyard.environments.conda.channels import without_login
from runyard.planning.passwords import has_secret, without_logins

HEADER = "@EXPLICIT"
PACKAGE = re.compile(r"[a-z]+://\S+\.(?:tar\.bz2|conda)#[0-9a-f]{32}")


def is_explicit(lock: str) -> bool:
    """Whether conda has a part in the lock."""
    return HEADER in lock.splitlines()


def explicit_part(lock: str) -> str:
    lines = [line for line in lock.splitlines() if PACKAGE.fullmatch(line)]
    return "".join(f"{line}\n" for line in [HEADER, *lines])


def pip_part(lock: str) -> str:
    """What is no package of conda's: the lines that uv installs."""
    return "".join(
        f"{line}\n" for line in lock.splitlines() if line.strip() != HEADER and not PACKAGE.fullmatch(line.strip())
    )


def installed(prefix: Path) -> dict[str, str]:
    """The versions of conda's packages in a prefix, by their conda names."""
    return {record["name"]: str(record["version"]) for record in _records(prefix).values()}


def locked(prefix: Path) -> str:
    """Each package with its checksum, those that others need first. No login is in it."""
    records = _records(prefix)
    lines = [_line(records[name]) for name in _in_order(records)]
    return "".join(f"{line}\n" for line in [HEADER, *lines])


def forget_logins(prefix: Path) -> None:
    """Take the passwords out of what conda has noted about where the packages came from."""
    for file in (prefix / "conda-meta").iterdir():
        if file.is_file() and has_secret(text := file.read_text(encoding="utf-8", errors="surrogateescape")):
            file.write_text(without_logins(text), encoding="utf-8", errors="surrogateescape")


def _records(prefix: Path) -> dict[str, Mapping[str, Any]]:
    found = (json.loads(file.read_bytes()) for file in sorted((prefix / "conda-meta").glob("*.json")))
    return {record["name"]: record for record in found}


def _in_order(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    left = {name: _needs(record) & records.keys() - {name} for name, record in records.items()}
    while left:
        # Packages that need one another, as pip and python do, are taken by name.
        ready = sorted(name for name, needs in left.items() if not needs & left.keys()) or [min(left)]
        for name in ready:
            del left[name]
            yield name


def _needs(record: Mapping[str, Any]) -> set[str]:
    return {str(depends).split()[0] for depends in record.get("depends") or () if str(depends).strip()}


def _line(record: Mapping[str, Any]) -> str:
    return f"{without_login(str(record['url']))}#{record['md5']}"
