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
"""Callback(key, folder): fetch the wheel if another machine has built it; None if not."""


@dataclass(frozen=True)
class CompiledWheel:
    key: str
    path: Path


class CompiledWheels:
    """Cache of wheels that were compiled against the packages of an environment.

    A wheel's file name does not say what it was compiled against; its key does. Safe across processes: the builder
    that holds the lock of a key moves the finished wheel into place.
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
        fetch_wheel: Bring,
        held: int,
        log: Say,
    ) -> Iterator[CompiledWheel]:
        """Find, fetch or build the wheel, and keep it from being pruned until exit.

        `python` is the interpreter of the environment that it is compiled against; `options` are pip options that
        choose the index of the source.
        """
        key = self._key(build, interpreter)
        with locked(self._lock(key), lambda: log(f"{build.requirement} is being built already; waiting.")) as lock_fd:
            found = self.find(key)
            if found is None:
                with self._scratch(key) as scratch:
                    wheel = fetch_wheel(key, scratch)
                    if wheel is None:
                        require_compilers(build.requirement, interpreter, self._variables, mpi=build.needs_mpi)
                        wheel = Pip(python, self._variables, scratch, (held, lock_fd)).build_wheel(build, options, log)
                    found = CompiledWheel(key, self._kept(key, wheel))
            else:
                log(f"{build.requirement} was built before{_beside(build)}; its wheel is taken.")
            os.utime(found.path)
            yield found

    def prune(self, older_than: timedelta, now: datetime | None = None) -> list[str]:
        """Remove wheels unused for that long, and leftovers of killed builds; return the removed keys."""
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
        facts += [build.origin] if build.origin else []  # keys of older versions stay valid
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]

    def _lock(self, key: str) -> Path:
        return self._locks / f"{key}.wheel"

    @contextmanager
    def _scratch(self, key: str) -> Iterator[Path]:
        """A folder for one build: compilers of a killed build may still write to theirs."""
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
        target = self._wheels / key / wheel.name
        target.parent.mkdir(exist_ok=True)
        return wheel.rename(target)


def never(key: str, into: Path) -> Path | None:
    """A `FetchWheel` for environments that no other machine has built."""


def _beside(build: SourceBuild) -> str:
    return f" against {' and '.join(build.against)}" if build.against else ""


def _libc() -> str:
    return " ".join(platform.libc_ver())
