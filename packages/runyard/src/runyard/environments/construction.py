from collections.abc import Mapping
from dataclasses import dataclass

from runyard.environments.compiled import Bring, CompiledWheels
from runyard.environments.durable import write_beside
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.installer import Uv
from runyard.environments.interpreters import Interpreter
from runyard.environments.library_links import link_libraries
from runyard.environments.programs import Say
from runyard.errors import EnvironmentFailed
from runyard.model.plan import EnvironmentSpec
from runyard.planning.source_builds import Unsuited, source_build
from runyard.ports.environments import BuiltEnvironment

LOCK_HEADER = "# python "


@dataclass(frozen=True)
class Construction:
    """One environment while it is made, by the holder of its builder lock, whose descriptor is `held`."""

    folder: EnvironmentFolder
    spec: EnvironmentSpec
    interpreter: Interpreter
    variables: Mapping[str, str]
    wheels: CompiledWheels
    bring: Bring
    held: int
    say: Say

    def make(self, given_lock: str | None = None) -> BuiltEnvironment:
        """Of the lock that is given, else as it was locked before, while that can be had; else resolved anew. What
        fails leaves no environment behind."""
        try:
            uv = Uv(self.variables, self.folder.fresh_scratch(), self.held)
            if given_lock is not None:
                self._keep(given_lock)
            lock = self._fill_as_before(uv)
            if lock is None:
                lock = self._keep(uv.resolve(self.spec, self.interpreter, self.say))
                self._fill(uv, lock)
            compiled = self._add_compiled(uv, lock)
            self.folder.adopt_scripts(self.interpreter)
            paths = link_libraries(self.folder.path, self.spec.library_links, self.variables)
            return self.folder.finish(lock, self.interpreter, compiled=compiled, path_variables=paths)
        except (OSError, EnvironmentFailed):
            self.folder.remove()
            raise
        finally:
            self.folder.remove_scratch()

    def _keep(self, lock: str) -> str:
        write_beside(self.folder.lock, f"{LOCK_HEADER}{self.interpreter.minor}\n{lock}".encode())
        return lock

    def _fill_as_before(self, uv: Uv) -> str | None:
        """Install what the spec was resolved to before; None when it never was or that cannot be had any more."""
        try:
            header, _, lock = self.folder.lock.read_text(encoding="utf-8").partition("\n")
        except (OSError, UnicodeDecodeError):
            return None
        if header != LOCK_HEADER + self.interpreter.minor:
            return None
        try:
            self._fill(uv, lock)
        except EnvironmentFailed:
            self.say("The versions that this environment had before cannot be installed any more; resolving anew.")
            return None
        return lock

    def _fill(self, uv: Uv, lock: str) -> None:
        """From uv's cache alone where it has everything, which asks no index; else afresh from the indexes."""
        self.folder.make(self.interpreter)
        if not lock.strip():
            return
        into, heard = self.folder.path, list[str]()
        try:
            uv.install(lock, self.spec, into, self.interpreter, heard.append, offline=True)
        except EnvironmentFailed:
            # What it left half installed would pass for installed.
            self.folder.make(self.interpreter)
            uv.install(lock, self.spec, into, self.interpreter, self.say, offline=False)
        else:
            for line in heard:
                self.say(line)

    def _add_compiled(self, uv: Uv, lock: str) -> dict[str, str]:
        """Requirements by the keys of the wheels that were installed for them."""
        compiled: dict[str, str] = {}
        options = [line for line in self.spec.requirements if line.startswith("-")]
        exact = [uv.exact(asked, self.spec, self.interpreter) for asked in self.spec.builds]
        for requirement in filter(None, exact):
            build = source_build(requirement, lock)
            if isinstance(build, Unsuited):
                self.say(build.why)
                continue
            with self.wheels.ensure(
                build,
                self.folder.python,
                self.interpreter,
                options=options,
                bring=self.bring,
                held=self.held,
                say=self.say,
            ) as wheel:
                uv.install_wheel(wheel.path, self.spec, self.folder.path, self.interpreter, self.say)
            compiled[wheel.key] = build.requirement
        return compiled
