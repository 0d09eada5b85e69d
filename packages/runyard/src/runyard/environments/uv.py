import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runyard.environments.durable import locked, shared, write_beside
from runyard.environments.folder import EnvironmentFolder, key_of
from runyard.environments.installer import Uv
from runyard.environments.interpreters import Interpreter, choose, discover
from runyard.errors import EnvironmentFailed
from runyard.model.plan import EnvironmentSpec
from runyard.ports.environments import BuiltEnvironment

Say = Callable[[str], None]
LOCK_HEADER = "# python "


class UvEnvironments:
    """Environments under one folder, made by uv; an `EnvironmentBuilder`.

    Safe to use from any number of processes. `variables` are the submitter's: PATH and HOME for finding
    interpreters, proxies, certificates and package indexes for uv.
    """

    def __init__(self, root: Path, variables: Mapping[str, str]) -> None:
        self._root = root
        self._variables = variables

    def find(self, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        if spec.user_managed:
            return BuiltEnvironment("", Path(spec.python), "") if os.access(spec.python, os.X_OK) else None
        return self._folder(spec).find()

    def ensure(self, spec: EnvironmentSpec, say: Say) -> BuiltEnvironment:
        found = self.find(spec)
        if found:
            return found
        if spec.user_managed:
            raise EnvironmentFailed(
                f"There is no interpreter {spec.python!r} on this machine.",
                hint="Set python.interpreter_path to one, or user_managed_dependencies to False.",
            )
        folder = self._folder(spec)
        try:
            with locked(folder.builder_lock, lambda: say("Another run is building this environment; waiting.")) as held:
                return folder.find() or self._build(folder, spec, say, held)
        except OSError as error:
            raise EnvironmentFailed(
                f"The environment could not be written to {self._root}: {error.strerror or error}.",
                hint="Free space or set RUNYARD_HOME to a folder on another disk.",
            ) from error

    @contextmanager
    def hold(self, built: BuiltEnvironment) -> Iterator[None]:
        """Keep an environment from being pruned. EnvironmentFailed if that has happened already."""
        if not built.key:
            yield
            return
        folder = EnvironmentFolder(self._root, built.key)
        with shared(folder.use_lock):
            if not folder.ready.exists():
                raise EnvironmentFailed(f"Environment {built.key} was removed meanwhile.", hint="Submit the run again.")
            yield

    def _folder(self, spec: EnvironmentSpec) -> EnvironmentFolder:
        return EnvironmentFolder(self._root, key_of(spec))

    def _build(self, folder: EnvironmentFolder, spec: EnvironmentSpec, say: Say, held: int) -> BuiltEnvironment:
        for note in spec.notes:
            say(note)
        interpreter, note = choose(spec, discover(self._root / "interpreters.json", self._variables))
        say(note or f"Python {interpreter} at {interpreter.path}.")
        try:
            uv = Uv(self._variables, folder.fresh_scratch(), held)
            lock = self._fill_as_before(folder, uv, spec, interpreter, say)
            if lock is None:
                lock = uv.resolve(spec, interpreter, say)
                write_beside(folder.lock, f"{LOCK_HEADER}{interpreter.minor}\n{lock}".encode())
                self._fill(folder, uv, lock, spec, interpreter, say)
            return folder.finish(lock, interpreter)
        except (OSError, EnvironmentFailed):
            folder.remove()
            raise
        finally:
            folder.remove_scratch()

    def _fill_as_before(
        self, folder: EnvironmentFolder, uv: Uv, spec: EnvironmentSpec, interpreter: Interpreter, say: Say
    ) -> str | None:
        """Install what the spec was resolved to before; None when it never was or that cannot be had any more."""
        try:
            header, _, lock = folder.lock.read_text(encoding="utf-8").partition("\n")
        except (OSError, UnicodeDecodeError):
            return None
        if header != LOCK_HEADER + interpreter.minor:
            return None
        try:
            self._fill(folder, uv, lock, spec, interpreter, say)
        except EnvironmentFailed:
            say("The versions that this environment had before cannot be installed any more; resolving anew.")
            return None
        return lock

    def _fill(
        self, folder: EnvironmentFolder, uv: Uv, lock: str, spec: EnvironmentSpec, interpreter: Interpreter, say: Say
    ) -> None:
        """From uv's cache alone where it has everything, which asks no index; else afresh from the indexes."""
        folder.make(interpreter)
        if not lock.strip():
            return
        heard: list[str] = []
        try:
            uv.install(lock, spec, folder.path, interpreter, heard.append, offline=True)
        except EnvironmentFailed:
            # What it left half installed would pass for installed.
            folder.make(interpreter)
            uv.install(lock, spec, folder.path, interpreter, say, offline=False)
        else:
            for line in heard:
                say(line)
        folder.adopt_scripts(interpreter)
