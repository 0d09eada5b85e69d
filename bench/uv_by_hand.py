"""uv as a person calls it: the same packages, indexes and cache, and nothing of ours."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from uv import find_uv_bin

from runyard.environments.index_settings import uv_variables
from runyard.environments.package_sources import PackageSources

UV = os.fspath(find_uv_bin())


def beside_the_cache() -> str:
    """uv links files only within one file system; a temporary folder elsewhere would make everybody copy."""
    cache = subprocess.run([UV, "cache", "dir"], capture_output=True, text=True, check=True)
    return str(Path(cache.stdout.strip()).parent)


def venv(place: Path, python: str | Path) -> None:
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", str(python), str(place)], check=True)


def pip_install(place: Path, arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
    command = [UV, "pip", "install", "--quiet", "--python", str(place / "bin" / "python"), *arguments]
    subprocess.run(command, check=True, env=None if variables is None else dict(variables))


def usual_indexes() -> dict[str, str]:
    """The variables that uv finds the packages with which the submitter's pip would take."""
    return uv_variables(PackageSources(dict(os.environ)).in_effect())
