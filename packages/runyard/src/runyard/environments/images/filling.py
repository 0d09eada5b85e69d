"""An environment in an image is filled as one of this machine is, by programs in a build container."""

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
    """The folder of an environment in its container. Locks and the lock file are those of the folder outside."""

    def __init__(self, root: Path, key: str, base: Interpreter, workshop: Workshop, work: Path) -> None:
        super().__init__(root, key)
        self.path = path_in_image(key)
        self.python = self.path / "bin" / "python"
        self._base, self._workshop, self._work = base, workshop, work
        self._platform = ""

    @property
    def platform(self) -> str:
        """Of the image, once the environment is made."""
        return self._platform

    def make(self, interpreter: Interpreter) -> None:
        arguments = (str(self.path), self._base.path, interpreter.minor, str(interpreter))
        self._platform = self._run("empty_environment.py", *arguments)[-1]

    def link_libraries(self, links: Sequence[Sequence[str]]) -> dict[str, str]:
        """Libraries of the image under the names that old packages look for them by; answers with the variables that
        its programs need in front."""
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
        """What uv has not compiled: each run has a fresh container, which would compile all that it imports again.
        Files of some packages are for other versions of Python, and do not compile."""
        command = [self._base.path, "-m", "compileall", "-q", str(self.path / "lib")]
        if self._base.version < OLDEST_COMPILED_BY_UV:
            self._workshop.run(command, lambda line: None, env={}, cwd=self._work)

    def _run(self, script: str, *arguments: str) -> list[str]:
        """What a program of ours says, on the interpreter that the environment is made from. OSError with its words
        where it fails."""
        command = [self._base.path, "-I", "-B", f"{INSIDE}/{script}", *arguments]
        ended = self._workshop.run(command, lambda line: None, env={}, cwd=self._work)
        if ended.exit_code:
            raise OSError("\n".join(ended.words) or f"{script} ended with {ended.exit_code}")
        return ended.words


@dataclass(frozen=True)
class ContainedConstruction(Construction):
    """`interpreter` is the environment's own, in the container."""

    folder: ContainedFolder
    workshop: Workshop = field(kw_only=True)
    passage: Passage = field(kw_only=True)
    base: str = field(kw_only=True)
    """What tells the image that it stands on."""
    kept: Path = field(kw_only=True)
    """Where what is compiled for that image is kept."""

    def fill(self, given: Lock | None, variables: Mapping[str, str], scratch: Path) -> tuple[Lock, dict[str, str]]:
        """The packages, as they were locked before or are resolved now; and the variables that they need."""
        self.folder.make(self.interpreter)  # uv asks its interpreter already when it resolves
        uv = self._uv(variables, scratch)
        lock = self._filled(uv, given)
        compiled = self._add_compiled(uv, lock, variables)
        self.folder.compile_modules()
        paths = self.folder.link_libraries(self.spec.library_links)
        return replace(self._outward(self._of_here(lock)), compiled=tuple(compiled.values())), paths

    def _uv(self, variables: Mapping[str, str], scratch: Path) -> Uv:
        return Uv(variables, scratch, self.held, self._run_uv)

    def _run_uv(
        self, command: Sequence[str], say: Say, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
    ) -> Spoken:
        return self.workshop.run([*uv_tool().command, *command[1:]], say, env=env, cwd=cwd, held=held)

    def _of_here(self, lock: Lock) -> Lock:
        return replace(lock.made_here(str(self.interpreter)), platform=self.folder.platform, base=self.base)

    def _outward(self, lock: Lock) -> Lock:
        return replace(lock, packages=self.passage.outward(lock.packages))

    def _keep(self, lock: Lock) -> Lock:
        super()._keep(self._outward(lock))
        return self._of_here(lock)

    def _locked_before(self) -> Lock | None:
        before = super()._locked_before()
        return before and replace(before, packages=self.passage.inward(before.packages))

    def _compiled(
        self, build: SourceBuild, options: Sequence[str], variables: Mapping[str, str]
    ) -> AbstractContextManager[CompiledWheel]:
        compiling = Compiling(
            workshop=self.workshop,
            python=self.folder.python,
            interpreter=self.interpreter,
            variables=variables,
            scratch=self.passage.scratch,
            kept=self.kept,
            held=self.held,
            say=self.say,
        )
        return nullcontext(compiling.wheel(build, options))
