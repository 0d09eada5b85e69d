"""The SDK's own tests, on every Python from 3.6 that this machine has."""

import glob
import os
import re
import subprocess
from pathlib import Path

import pytest

SDK = Path(__file__).resolve().parents[2] / "packages" / "sdk"
OLDEST = (3, 6)
PLACES = (
    "~/.pyenv/versions/*/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/opt/*/bin",
    "~/*conda*/envs/*/bin",
    "~/.local/share/uv/python/*/bin",
)
VERSION = re.compile(r"Python (\d+)\.(\d+)")


def candidates() -> list[Path]:
    folders = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    folders += [Path(found) for place in PLACES for found in sorted(glob.glob(os.path.expanduser(place)))]
    return [
        path
        for folder in folders
        for path in sorted(folder.glob("python3*"))
        if re.fullmatch(r"python3(\.\d+)?", path.name)
    ]


def version_of(python: Path) -> tuple[int, int] | None:
    """None for what only looks like a Python: a shim whose version is not installed, a broken link."""
    try:
        said = subprocess.run([python, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = VERSION.match(said.stdout)
    return (int(found[1]), int(found[2])) if found and said.returncode == 0 else None


def interpreters() -> dict[tuple[int, int], Path]:
    """One working interpreter per minor version, the first that is found."""
    found: dict[tuple[int, int], Path] = {}
    for python in candidates():
        version = version_of(python)
        if version and version >= OLDEST:
            found.setdefault(version, python)
    return dict(sorted(found.items()))


FOUND = interpreters()


@pytest.mark.parametrize("version", FOUND, ids=lambda version: ".".join(map(str, version)))
def test_the_sdk_holds_on(version: tuple[int, int], tmp_path: Path) -> None:
    variables = {
        "PYTHONPATH": str(SDK / "src"),
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "RUNYARD_HOME": str(tmp_path / "home"),
        "PYTHONPYCACHEPREFIX": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [FOUND[version], "-W", "error::SyntaxWarning", "-m", "unittest", "discover", "-s", "tests", "-t", "."],
        cwd=SDK,
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "skipped" not in done.stderr


def test_no_interpreter_of_the_usual_places_was_overlooked() -> None:
    names = {path.parent.parent.name for path in candidates() if ".pyenv/versions" in str(path)}
    minors = {tuple(map(int, name.split(".")[:2])) for name in names if re.fullmatch(r"3\.\d+\.\d+", name)}
    assert {minor for minor in minors if minor >= OLDEST} <= set(FOUND)
