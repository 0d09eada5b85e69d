from collections.abc import Iterator
from dataclasses import dataclass, replace

from runyard.environments.compiled import Bring
from runyard.environments.conda.beside import BesideConda
from runyard.environments.conda.channels import Channels
from runyard.environments.conda.explicit import is_explicit, locked
from runyard.environments.conda.failures import SOLVING
from runyard.environments.conda.finding import CondaTool
from runyard.environments.conda.running import Conda
from runyard.environments.construction import NOT_AS_LOCKED, NOT_MENDED_BY_RESOLVING
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.interpreters import Interpreter, interpreter_at
from runyard.environments.lockfile import Lock
from runyard.environments.programs import Say
from runyard.environments.sources import Sources
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.plan import CondaSpec, EnvironmentSpec
from runyard.ports.environments import BuiltEnvironment


@dataclass(frozen=True)
class CondaConstruction:
    """Builds an environment of a spec with conda packages: conda creates the prefix, then uv adds the pip packages.

    The caller holds the builder lock; `held` is the lock's descriptor.
    """

    folder: EnvironmentFolder
    spec: EnvironmentSpec
    tool: CondaTool
    sources: Sources
    fetch_wheel: Bring
    held: int
    log: Say

    def make(self, given: Lock | None = None) -> BuiltEnvironment:
        """Install the `given` lock, else the lock of an earlier build; solve again if that cannot be installed.

        A locked spec is never solved again. A failed build is removed.
        """
        try:
            return self._made(given)
        except (OSError, EnvironmentFailed):
            self.folder.remove()
            raise
        finally:
            self.folder.remove_scratch()

    def _made(self, given: Lock | None) -> BuiltEnvironment:
        if self.spec.locked:
            try:
                return self._made_of(Lock.parse(self.spec.locked))
            except EnvironmentFailed as failure:
                raise EnvironmentFailed(failure.problem, hint=NOT_AS_LOCKED, **failure.facts) from failure
        before = given or self._locked_before()
        if before is not None:
            try:
                return self._made_of(before)
            except EnvironmentFailed as failure:
                if failure.facts.get("cause") in NOT_MENDED_BY_RESOLVING:
                    raise
                self.log("The packages that this environment had before cannot be installed any more; solving anew.")
        return self._made_of(None)

    def _locked_before(self) -> Lock | None:
        try:
            text = self.folder.lock.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        return Lock.parse(text) if is_explicit(text) else None

    def _made_of(self, lock: Lock | None) -> BuiltEnvironment:
        conda_spec = self.spec.conda
        assert conda_spec is not None
        scratch = self.folder.fresh_scratch()
        with self.sources.laid_out(scratch) as variables:
            channels = Channels.of(conda_spec, self.sources)
            offline = self.sources.settings.offline
            conda = Conda(self.tool, variables, channels, scratch, self.held, is_offline=offline)
            if lock:
                self.folder.remove()
                conda.create_locked(self.folder.path, lock.packages, self.log)
            else:
                self._solve(conda, conda_spec)
        by_pip = BesideConda(
            folder=self.folder,
            spec=replace(self.spec, requirements=conda_spec.requirements),
            interpreter=self._interpreter(),
            sources=self.sources,
            fetch_wheel=self.fetch_wheel,
            held=self.held,
            log=self.log,
            explicit=locked(self.folder.path),
        )
        return by_pip.make(lock)

    def _solve(self, conda: Conda, conda_spec: CondaSpec) -> None:
        pythons = list(_pythons(self.spec))
        for python, another in zip(pythons, [*pythons[1:], None], strict=True):
            self.folder.remove()
            try:
                conda.create(self.folder.path, python, conda_spec, self.log)
                return
            except EnvironmentFailed as failure:
                if another is None or failure.facts.get("cause") not in SOLVING:
                    raise
                self.log(f"With Python {python} that cannot be had; trying {another}.")

    def _interpreter(self) -> Interpreter:
        found = interpreter_at(str(self.folder.python), self.sources.variables)
        if found is None:
            raise EnvironmentFailed(
                f"{self.tool.name} made an environment whose Python does not run on this machine.",
                hint="Ask for python=3.6 or newer among the conda packages, for this kind of machine.",
                cause=Cause.NO_PYTHON,
                said="",
            )
        self.log(f"Python {found} at {found.path}, by {self.tool.name}.")
        return found


def _pythons(spec: EnvironmentSpec) -> Iterator[str]:
    """Versions to try: as asked for, their minor versions, then the fallback of the spec."""
    wanted = spec.python.split(",")
    minors = [".".join(python.split(".")[:2]) for python in wanted]
    yield from dict.fromkeys([*wanted, *minors, *filter(None, [spec.python_instead])])
