"""numpy, scikit-learn, pandas and joblib, locked before and in uv's cache, beside uv installing the same lock."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from uv import find_uv_bin

from bench.measuring import Measurement, Subject, interleaved, median, seconds_of, spread_of, times_floor
from runyard.environments.cache import prune
from runyard.environments.uv import UvEnvironments
from runyard.model.plan import EnvironmentSpec

REPEATS = 9
WANTED = ("numpy", "scikit-learn", "pandas", "joblib")
SPEC = EnvironmentSpec(python="3.11", requirements=WANTED)


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory(dir=_beside_the_cache()) as folder:
        root = Path(folder)
        environments = UvEnvironments(root / "environments", dict(os.environ))
        built = environments.ensure(SPEC, lambda line: None)
        lock = root / "lock.txt"
        lock.write_text(built.lock, encoding="utf-8")
        subjects: dict[str, Subject] = {
            "floor": _uv(root, built.python, ["--offline", "--no-deps", "-r", str(lock)]),
            "uv, resolving": _uv(root, built.python, list(WANTED)),
            "ours": _ours(root / "environments"),
        }
        taken = interleaved(subjects, REPEATS, rarely={"uv, resolving"})
        taken["pip"] = [_pip(root, built.python, lock)()]  # half a minute: once tells enough
    milliseconds = {name: median(values) * 1000 for name, values in taken.items()}
    yield Measurement(
        bench="locked environment, warm cache",
        value=milliseconds["ours"],
        unit="ms",
        bar=times_floor(1.3),
        floor=milliseconds["floor"],
        spread=spread_of(taken["ours"]),
        peers={name: milliseconds[name] for name in ("uv, resolving", "pip")},
    )


def _beside_the_cache() -> str:
    """uv links files only within one file system; a temporary folder elsewhere would make everybody copy."""
    cache = subprocess.run([os.fspath(find_uv_bin()), "cache", "dir"], capture_output=True, text=True, check=True)
    return str(Path(cache.stdout.strip()).parent)


def _ours(root: Path) -> Subject:
    measured = seconds_of(lambda: UvEnvironments(root, dict(os.environ)).ensure(SPEC, lambda line: None))

    def subject() -> float:
        assert prune(root), "the environment of the round before should have been removed"
        return measured()

    return subject


def _uv(root: Path, python: Path, arguments: list[str]) -> Subject:
    """The install alone; what is made before it counts for us and not for them."""
    uv, place = os.fspath(find_uv_bin()), root / "by-uv"
    command = [uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python"), *arguments]
    make = [uv, "venv", "--quiet", "--clear", "--python", str(python), str(place)]
    return _after(make, seconds_of(lambda: subprocess.run(command, check=True)))


def _pip(root: Path, python: Path, lock: Path) -> Subject:
    place = root / "by-pip"
    install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(lock)]
    make = [str(python), "-m", "venv", "--clear", str(place)]
    return _after(make, seconds_of(lambda: subprocess.run(install, check=True, stderr=subprocess.DEVNULL)))


def _after(preparation: list[str], measured: Subject) -> Subject:
    def subject() -> float:
        subprocess.run(preparation, check=True)
        return measured()

    return subject
