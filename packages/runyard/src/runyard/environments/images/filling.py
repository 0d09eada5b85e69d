"""The layer of an image that holds the packages of an environment.

Built like a virtual environment of this machine, but by programs that run in a build container.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from runyard.environments.compiled import CompiledWheel
from runyard.environments.construction import Construction
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.images.compiling import Compiling
from runyard.environments.images.passage import Passage
from runyard.environments.images.tools import uv_tool
from runyard.environments.images.workshop import INSIDE, Workshop
from runyard.environments.installer import Uv
from runyard.environments.interpreters import Interpreter
from runyard.environments.library_links import FOLDER as OLD_NAMES
from runyard.environments.lockfile import Lock
from runyard.environments.programs import Say, Spoken
from runyard.environments.toolchain import INSTALL_MPI
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.planning.source_builds import SourceBuild

OLDEST_COMPILED_BY_UV = (3, 7, 0)


def path_in_image(key: str) -> Path:
    return Path("/azureml-envs") / key


class ContainedFolder(EnvironmentFolder):
    """Folder of an environment inside the build container; its lock files are on this machine."""

    def __init__(self, root: Path, key: str, base: Interpreter, container: Workshop, work: Path) -> None:
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
                cause=Cause.BUILD_FAILED,
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
class ContainedConstruction(Construction):
    """Builds an environment in a container. `interpreter` is the environment's own, inside the container."""

    folder: ContainedFolder
    container: Workshop = field(kw_only=True)
    mapping: Passage = field(kw_only=True)
    base: str = field(kw_only=True)
    """Digest of the base image."""
    kept: Path = field(kw_only=True)
    """Cache of wheels that were compiled for that image."""

    def fill(self, given: Lock | None, variables: Mapping[str, str], scratch: Path) -> tuple[Lock, dict[str, str]]:
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
        self, command: Sequence[str], log: Say, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
    ) -> Spoken:
        return self.container.run([*uv_tool().command, *command[1:]], log, env=env, cwd=cwd, held=held)

    def _of_here(self, lock: Lock) -> Lock:
        return replace(lock.made_here(str(self.interpreter)), platform=self.folder.platform, base=self.base)

    def _outward(self, lock: Lock) -> Lock:
        return replace(lock, packages=self.mapping.outward(lock.packages))

    def _keep(self, lock: Lock) -> Lock:
        super()._keep(self._outward(lock))
        return self._of_here(lock)

    def _locked_before(self) -> Lock | None:
        before = super()._locked_before()
        return before and replace(before, packages=self.mapping.inward(before.packages))

    def _compiled(
        self, build: SourceBuild, options: Sequence[str], variables: Mapping[str, str]
    ) -> AbstractContextManager[CompiledWheel]:
        wheels = Compiling(
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
