"""numpy, scikit-learn, pandas and joblib, locked before and in uv's cache, beside uv installing the same lock."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.measuring import Measurement, Subject, interleaved, median, seconds_of, spread_of, times_floor
from bench.uv_by_hand import beside_the_cache, pip_install, venv
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.builder import LocalEnvironments, prune_environments

REPEATS = 9
WANTED = ("numpy", "scikit-learn", "pandas", "joblib")
SPEC = EnvironmentSpec(python="3.11", requirements=WANTED)


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory(dir=beside_the_cache()) as folder:
        root = Path(folder)
        environments = LocalEnvironments(root / "environments", dict(os.environ))
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


def _ours(root: Path) -> Subject:
    measured = seconds_of(lambda: LocalEnvironments(root, dict(os.environ)).ensure(SPEC, lambda line: None))

    def subject() -> float:
        assert prune_environments(root), "the environment of the round before should have been removed"
        return measured()

    return subject


def _uv(root: Path, python: Path, arguments: list[str]) -> Subject:
    """The install alone; what is made before it counts for us and not for them."""
    place = root / "by-uv"
    return _after(lambda: venv(place, python), seconds_of(lambda: pip_install(place, arguments)))


def _pip(root: Path, python: Path, lock: Path) -> Subject:
    place = root / "by-pip"
    install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(lock)]
    make = [str(python), "-m", "venv", "--clear", str(place)]
    return _after(
        lambda: subprocess.run(make, check=True),
        seconds_of(lambda: subprocess.run(install, check=True, stderr=subprocess.DEVNULL)),
    )


def _after(prepare: Callable[[], object], measured: Subject) -> Subject:
    def subject() -> float:
        prepare()
        return measured()

    return subject
