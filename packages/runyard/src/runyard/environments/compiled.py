import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runyard.environments.durable import locked, locked_if_free, synced
from runyard.environments.interpreters import Interpreter
from runyard.environments.pip import Pip
from runyard.environments.programs import Say
from runyard.environments.toolchain import open_mpi_version, require_compilers
from runyard.planning.source_builds import SourceBuild

FORMAT = 1
Bring = Callable[[str, Path], Path | None]
"""Puts the wheel of a key, if another machine has made it, into a folder."""


@dataclass(frozen=True)
class CompiledWheel:
    key: str
    path: Path


class CompiledWheels:
    """Packages that were compiled against the packages of an environment, kept as wheels.

    A wheel's name does not tell what it was compiled against; its key does. Safe to use from any number of
    processes: a wheel is moved into its place whole, by the one builder that holds its lock.
    """

    def __init__(self, environments: Path, variables: Mapping[str, str]) -> None:
        self._wheels, self._locks, self._variables = environments / "wheels", environments / "locks", variables

    def find(self, key: str) -> CompiledWheel | None:
        wheel = next(iter(sorted((self._wheels / key).glob("*.whl"))), None)
        return CompiledWheel(key, wheel) if wheel else None

    @contextmanager
    def ensure(
        self,
        build: SourceBuild,
        python: Path,
        interpreter: Interpreter,
        *,
        options: Sequence[str],
        bring: Bring,
        held: int,
        say: Say,
    ) -> Iterator[CompiledWheel]:
        """Find, bring or build; it is not removed meanwhile. `python` is the environment that holds what it is
        compiled against, `options` are lines for pip that choose where the source comes from."""
        key = self._key(build, interpreter)
        with locked(self._lock(key), lambda: say(f"{build.requirement} is being built already; waiting.")) as mine:
            found = self.find(key)
            if found is None:
                with self._scratch(key) as scratch:
                    made = bring(key, scratch)
                    if made is None:
                        require_compilers(build.requirement, interpreter, self._variables, mpi=build.needs_mpi)
                        made = Pip(python, self._variables, scratch, (held, mine)).build_wheel(build, options, say)
                    found = CompiledWheel(key, self._kept(key, made))
            else:
                say(f"{build.requirement} was built before{_beside(build)}; its wheel is taken.")
            os.utime(found.path)
            yield found

    def prune(self, older_than: timedelta, now: datetime | None = None) -> list[str]:
        """Remove wheels that no environment was made with for that long, and what killed builders left."""
        before = ((now or datetime.now(UTC)) - older_than).timestamp()
        removed = []
        for folder in sorted(self._wheels.glob("[!.]*")):
            with locked_if_free(self._lock(folder.name)) as free:
                if free and not any(wheel.stat().st_mtime > before for wheel in folder.glob("*.whl")):
                    shutil.rmtree(folder)
                    removed.append(folder.name)
        for scratch in self._wheels.glob(".build-*"):
            with locked_if_free(self._lock(scratch.name.split("-")[1])) as free:
                if free:
                    shutil.rmtree(scratch, ignore_errors=True)
        return removed

    def _key(self, build: SourceBuild, interpreter: Interpreter) -> str:
        mpi = open_mpi_version(self._variables, build.requirement) if build.needs_mpi else ""
        facts = [FORMAT, build.requirement, build.against, interpreter.minor, platform.machine(), _libc(), mpi]
        facts += [sorted(build.variables.items()), [vars(edit) for edit in build.edits]]
        facts += [build.origin] if build.origin else []  # keys of before stay what they were
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]

    def _lock(self, key: str) -> Path:
        return self._locks / f"{key}.wheel"

    @contextmanager
    def _scratch(self, key: str) -> Iterator[Path]:
        """A folder of its own for each builder: compilers that a killed one left behind may still write to theirs."""
        self._wheels.mkdir(parents=True, exist_ok=True)
        for left in self._wheels.glob(f".build-{key}-*"):
            shutil.rmtree(left, ignore_errors=True)
        scratch = Path(tempfile.mkdtemp(dir=self._wheels, prefix=f".build-{key}-"))
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _kept(self, key: str, wheel: Path) -> Path:
        synced(wheel)
        place = self._wheels / key / wheel.name
        place.parent.mkdir(exist_ok=True)
        return wheel.rename(place)


def never(key: str, into: Path) -> Path | None:
    """No other machine has made it."""


def _beside(build: SourceBuild) -> str:
    return f" against {' and '.join(build.against)}" if build.against else ""


def _libc() -> str:
    return " ".join(platform.libc_ver())
