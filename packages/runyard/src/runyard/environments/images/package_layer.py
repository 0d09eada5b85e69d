"""The layer of an image that holds the packages of an environment.

Built like a virtual environment of this machine, but by programs that run in a build container.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from runyard.core.durable_files import fsync_file
from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.environments.build import EnvironmentBuild
from runyard.environments.compiled_wheels import CompiledWheel, Pip
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.images.build_container import INSIDE, BuildContainer, PathMapping
from runyard.environments.images.container_uv import uv_tool
from runyard.environments.interpreters import Interpreter
from runyard.environments.lockfile import LockFile
from runyard.environments.planning.source_builds import SourceBuild
from runyard.environments.programs import LogLine, ProgramResult
from runyard.environments.toolchain import FOLDER as OLD_NAMES
from runyard.environments.toolchain import INSTALL_MPI
from runyard.environments.uv_installer import Uv

OLDEST_COMPILED_BY_UV = (3, 7, 0)


def path_in_image(key: str) -> Path:
    return Path("/azureml-envs") / key


class ContainerEnvironmentFolder(EnvironmentFolder):
    """Folder of an environment inside the build container; its lock files are on this machine."""

    def __init__(self, root: Path, key: str, base: Interpreter, container: BuildContainer, work: Path) -> None:
        super().__init__(root, key)
        self.path = path_in_image(key)
        self.python = self.path / "bin" / "python"
        self._base, self._container, self._work = base, container, work
        self._platform = ""

    @property
    def platform(self) -> str:
        """Platform of the image; known after `make`."""
        return self._platform

    def make(self, interpreter: Interpreter) -> None:
        arguments = (str(self.path), self._base.path, interpreter.minor, str(interpreter))
        self._platform = self._run("empty_environment.py", *arguments)[-1]

    def link_libraries(self, links: Sequence[Sequence[str]]) -> dict[str, str]:
        """Link libraries of the image under the names that old packages look for; returns the path variables that
        programs need in front. Raises EnvironmentFailed for a missing library."""
        if not links:
            return {}
        folder = str(self.path / OLD_NAMES)
        try:
            self._run("link_libraries.py", folder, *(f"{old}={library}" for old, library in links))
        except OSError as missing:
            raise EnvironmentFailed(
                f"The library {missing} is not in the image.",
                hint=f"Choose an image that has it. {INSTALL_MPI}",
                cause=FailureCause.BUILD_FAILED,
                said=str(missing),
            ) from missing
        return {"LD_LIBRARY_PATH": folder}

    def compile_modules(self) -> None:
        """Compile modules to bytecode where uv does not: a fresh container would compile them in every run.

        Errors are ignored: some packages have files for other versions of Python.
        """
        command = [self._base.path, "-m", "compileall", "-q", str(self.path / "lib")]
        if self._base.version < OLDEST_COMPILED_BY_UV:
            self._container.run(command, lambda line: None, env={}, cwd=self._work)

    def _run(self, script: str, *arguments: str) -> list[str]:
        """Run a program of `inside` in the container; returns its output. Raises OSError with it on failure."""
        command = [self._base.path, "-I", "-B", f"{INSIDE}/{script}", *arguments]
        ended = self._container.run(command, lambda line: None, env={}, cwd=self._work)
        if ended.exit_code:
            raise OSError("\n".join(ended.lines) or f"{script} ended with {ended.exit_code}")
        return ended.lines


@dataclass(frozen=True)
class ContainerEnvironmentBuild(EnvironmentBuild):
    """Builds an environment in a container. `interpreter` is the environment's own, inside the container."""

    folder: ContainerEnvironmentFolder
    container: BuildContainer = field(kw_only=True)
    mapping: PathMapping = field(kw_only=True)
    base: str = field(kw_only=True)
    """Digest of the base image."""
    kept: Path = field(kw_only=True)
    """Cache of wheels that were compiled for that image."""

    def fill(
        self, given: LockFile | None, variables: Mapping[str, str], scratch: Path
    ) -> tuple[LockFile, dict[str, str]]:
        """Install the packages, from a lock or resolved again; returns the lock and the path variables."""
        self.folder.make(self.interpreter)  # uv starts the interpreter to resolve
        uv = self._uv(variables, scratch)
        lock = self._filled(uv, given)
        compiled = self._add_compiled(uv, lock, variables)
        self.folder.compile_modules()
        paths = self.folder.link_libraries(self.spec.library_links)
        return replace(self._outward(self._of_here(lock)), compiled=tuple(compiled.values())), paths

    def _uv(self, variables: Mapping[str, str], scratch: Path) -> Uv:
        return Uv(variables, scratch, self.held, self._run_uv)

    def _run_uv(
        self, command: Sequence[str], log: LogLine, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
    ) -> ProgramResult:
        return self.container.run([*uv_tool().command, *command[1:]], log, env=env, cwd=cwd, held=held)

    def _of_here(self, lock: LockFile) -> LockFile:
        return replace(lock.for_this_machine(str(self.interpreter)), platform=self.folder.platform, base=self.base)

    def _outward(self, lock: LockFile) -> LockFile:
        return replace(lock, packages=self.mapping.to_host(lock.packages))

    def _keep(self, lock: LockFile) -> LockFile:
        super()._keep(self._outward(lock))
        return self._of_here(lock)

    def _locked_before(self) -> LockFile | None:
        before = super()._locked_before()
        return before and replace(before, packages=self.mapping.to_container(before.packages))

    def _compiled(
        self, build: SourceBuild, options: Sequence[str], variables: Mapping[str, str]
    ) -> AbstractContextManager[CompiledWheel]:
        wheels = ImageWheels(
            container=self.container,
            python=self.folder.python,
            interpreter=self.interpreter,
            variables=variables,
            scratch=self.mapping.scratch,
            kept=self.kept,
            held=self.held,
            log=self.log,
        )
        return nullcontext(wheels.wheel(build, options))


@dataclass(frozen=True)
class ImageWheels:
    """Compiles packages in the build container, with the compilers of the image.

    `kept` caches the wheels for other environments on the same base image.
    """

    container: BuildContainer
    python: Path
    interpreter: Interpreter
    variables: Mapping[str, str]
    scratch: Path
    kept: Path
    held: int
    log: LogLine

    def wheel(self, build: SourceBuild, options: Sequence[str]) -> CompiledWheel:
        """The wheel, cached or built, in a folder below `scratch`, which the container can read."""
        folder = self.kept / self._key(build)
        found = next(iter(sorted(folder.glob("*.whl"))), None)
        scratch = self.scratch / f"compiling-{folder.name}"
        scratch.mkdir()
        if found is not None:
            self.log(f"{build.requirement} was built in this image before; its wheel is taken.")
            os.link(found, scratch / found.name)
            return CompiledWheel(folder.name, scratch / found.name)
        pip = Pip(self.python, self.variables, scratch, (self.held,), self.container.run)
        made = pip.build_wheel(build, options, self.log)
        fsync_file(made)
        _keep(made, folder)
        return CompiledWheel(folder.name, made)

    def _key(self, build: SourceBuild) -> str:
        facts = [
            build.requirement,
            build.against,
            self.interpreter.minor,
            sorted(build.variables.items()),
            [vars(edit) for edit in build.edits],
            build.origin,
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]


def _keep(wheel: Path, folder: Path) -> None:
    """Add the wheel to the cache atomically: other builds may add the same, or be killed while they do."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{wheel.name}.{secrets.token_hex(8)}"
    os.link(wheel, temporary)
    os.replace(temporary, folder / wheel.name)
