import hashlib
import json
import os
import platform
import shutil
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runyard.core.durable_files import exclusive_lock, fsync_file, try_exclusive_lock
from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.failures import program_failed
from runyard.environments.index_settings import pip_variables
from runyard.environments.interpreters import Interpreter
from runyard.environments.planning.source_builds import SourceBuild
from runyard.environments.programs import LogLine, RunProgram, run_program
from runyard.environments.toolchain import open_mpi_version, parallel_compilers, require_compilers

FORMAT = 1
FetchWheel = Callable[[str, Path], Path | None]
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
        fetch_wheel: FetchWheel,
        held: int,
        log: LogLine,
    ) -> Iterator[CompiledWheel]:
        """Find, fetch or build the wheel, and keep it from being pruned until exit.

        `python` is the interpreter of the environment that it is compiled against; `options` are pip options that
        choose the index of the source.
        """
        key = self._key(build, interpreter)
        with exclusive_lock(
            self._lock(key), lambda: log(f"{build.requirement} is being built already; waiting.")
        ) as lock_fd:
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
            with try_exclusive_lock(self._lock(folder.name)) as free:
                if free and not any(wheel.stat().st_mtime > before for wheel in folder.glob("*.whl")):
                    shutil.rmtree(folder)
                    removed.append(folder.name)
        for scratch in self._wheels.glob(".build-*"):
            with try_exclusive_lock(self._lock(scratch.name.split("-")[1])) as free:
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
        fsync_file(wheel)
        target = self._wheels / key / wheel.name
        target.parent.mkdir(exist_ok=True)
        return wheel.rename(target)


def no_wheel(key: str, into: Path) -> Path | None:
    """A `FetchWheel` for environments that no other machine has built."""


def _beside(build: SourceBuild) -> str:
    return f" against {' and '.join(build.against)}" if build.against else ""


def _libc() -> str:
    return " ".join(platform.libc_ver())


class Pip:
    """Runs the pip of an environment with the submitter's index settings.

    `scratch` is a private folder of this build. pip inherits the descriptors `held`, so their locks stay taken while
    it runs. `run` starts it, on this machine or in a container.
    """

    def __init__(
        self,
        python: Path,
        variables: Mapping[str, str],
        scratch: Path,
        held: Sequence[int],
        run: RunProgram = run_program,
    ) -> None:
        self._python, self._variables, self._scratch, self._held = python, variables, scratch, held
        self._run_program = run

    def build_wheel(self, build: SourceBuild, options: Sequence[str], log: LogLine) -> Path:
        """Build the wheel of a source package against the packages of the environment. Raises EnvironmentFailed with
        the compiler's output."""
        beside = f" against {' and '.join(build.against)}" if build.against else ""
        jobs = parallel_compilers()
        log(f"Building {build.requirement}{beside} with {jobs} compilers at once. This takes minutes, and only once.")
        began = time.monotonic()
        # pip's own wheel cache ignores what a wheel was compiled against.
        command = ["wheel", "-v", "--no-cache-dir", "--no-build-isolation", "--no-deps", "-w", "built"]
        command += self._edited(build, options, log) if build.edits else self._wanted(build, options)
        self._run(build, f"compiling {build.requirement}{beside}", command, log)
        log(f"Built {build.requirement}{beside} in {time.monotonic() - began:.0f} s.")
        return self._only("built", "*.whl")

    def _wanted(self, build: SourceBuild, options: Sequence[str]) -> list[str]:
        wanted = self._scratch / "wanted.txt"
        wanted.write_text("\n".join([*options, build.requirement, ""]), encoding="utf-8")
        return ["--no-binary", ":all:", "-r", wanted.name]

    def _edited(self, build: SourceBuild, options: Sequence[str], log: LogLine) -> list[str]:
        """Download and unpack the source and apply its edits; returns pip's arguments for it."""
        command = ["download", "--no-deps", "--no-build-isolation", "-d", "source", *self._wanted(build, options)]
        self._run(build, f"fetching the source of {build.requirement}", command, log)
        _unpack(self._only("source", "*"), self._scratch / "unpacked")
        folder = self._only("unpacked", "*")
        for edit in build.edits:
            _edit(folder / edit.file, edit.old, edit.new, log)
        return ["--no-index", str(folder)]

    def _run(self, build: SourceBuild, doing: str, command: Sequence[str], log: LogLine) -> None:
        try:
            result = self._run_program(
                [str(self._python), "-m", "pip", *command],
                log,
                env=self._environment(build),
                cwd=self._scratch,
                held=self._held,
            )
        except OSError as error:
            raise EnvironmentFailed(
                f"The environment's pip could not be started: {error}.", cause=FailureCause.UNKNOWN, said=str(error)
            ) from error
        if result.exit_code:
            raise program_failed(doing, result.lines, EnvironmentSpec(requirements=(build.requirement,)), "pip")

    def _environment(self, build: SourceBuild) -> dict[str, str]:
        temporary = self._scratch / "tmp"
        temporary.mkdir(exist_ok=True)
        path = os.pathsep.join((str(self._python.parent), self._variables.get("PATH") or os.defpath))
        jobs = str(parallel_compilers())
        return {
            "MAKEFLAGS": f"-j{jobs}",
            "CMAKE_BUILD_PARALLEL_LEVEL": jobs,
            **pip_variables(self._variables),
            **build.variables,
            "PATH": path,
            "TMPDIR": str(temporary),
        }

    def _only(self, folder: str, pattern: str) -> Path:
        return next(iter((self._scratch / folder).glob(pattern)))


def _unpack(archive: Path, into: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(into)
        return
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")


def _edit(file: Path, old: str, new: str, log: LogLine) -> None:
    """Replace text in a source file; does nothing where the text is not there, as in other releases."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return
    if old in text:
        log(f"{file.name}: '{old}' becomes '{new}'.")
        file.write_text(text.replace(old, new), encoding="utf-8")
