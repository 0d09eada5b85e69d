"""An environment in an image is filled as one of this machine is, by programs in a build container."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runyard.environments.construction import Construction
from runyard.environments.folder import EnvironmentFolder
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


def path_in_image(key: str) -> Path:
    return Path("/azureml-envs") / key


class ContainedFolder(EnvironmentFolder):
    """The folder of an environment in its container. Locks and the lock file are those of the folder outside."""

    def __init__(self, root: Path, key: str, base: Interpreter, workshop: Workshop, work: Path) -> None:
        super().__init__(root, key)
        self.path = path_in_image(key)
        self.python = self.path / "bin" / "python"
        self._base, self._workshop, self._work = base, workshop, work

    def make(self, interpreter: Interpreter) -> None:
        self._run("empty_environment.py", str(self.path), self._base.path, interpreter.minor, str(interpreter))

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

    def _run(self, script: str, *arguments: str) -> None:
        """On the interpreter that the environment is made from. OSError with its words where it fails."""
        command = [self._base.path, "-I", "-B", f"{INSIDE}/{script}", *arguments]
        ended = self._workshop.run(command, lambda line: None, env={}, cwd=self._work)
        if ended.exit_code:
            raise OSError("\n".join(ended.words) or f"{script} ended with {ended.exit_code}")


@dataclass(frozen=True)
class ContainedConstruction(Construction):
    """`interpreter` is the environment's own, in the container."""

    folder: ContainedFolder
    workshop: Workshop = field(kw_only=True)

    def fill(self, given: Lock | None, variables: Mapping[str, str], scratch: Path) -> tuple[Lock, dict[str, str]]:
        """The packages, as they were locked before or are resolved now; and the variables that they need."""
        self.folder.make(self.interpreter)  # uv asks its interpreter already when it resolves
        lock = self._filled(self._uv(variables, scratch), given)
        return lock.made_here(str(self.interpreter)), self.folder.link_libraries(self.spec.library_links)

    def _uv(self, variables: Mapping[str, str], scratch: Path) -> Uv:
        return Uv(variables, scratch, self.held, self._run_uv)

    def _run_uv(
        self, command: Sequence[str], say: Say, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
    ) -> Spoken:
        return self.workshop.run([*uv_tool().command, *command[1:]], say, env=env, cwd=cwd, held=held)
