import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from runyard.environments.compiled import Bring, CompiledWheels, never
from runyard.environments.construction import Construction
from runyard.environments.durable import locked, shared
from runyard.environments.folder import EnvironmentFolder, key_of
from runyard.environments.interpreters import choose, discover
from runyard.environments.programs import Say
from runyard.errors import EnvironmentFailed
from runyard.model.plan import EnvironmentSpec
from runyard.ports.environments import BuiltEnvironment, EnvironmentLock


@dataclass(frozen=True)
class MadeElsewhere:
    """An environment that another machine has made: its Python and packages, and how to get what was compiled."""

    python: str
    lock: str
    bring: Bring


class UvEnvironments:
    """Environments under one folder, made by uv; an `EnvironmentBuilder`.

    Safe to use from any number of processes. `variables` are the submitter's: PATH and HOME for finding
    interpreters, proxies, certificates and package indexes for uv.
    """

    def __init__(self, root: Path, variables: Mapping[str, str]) -> None:
        self._root = root
        self._variables = variables
        self._wheels = CompiledWheels(root, variables)

    def find(self, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        if spec.user_managed:
            return BuiltEnvironment("", Path(spec.python), "") if os.access(spec.python, os.X_OK) else None
        return self._folder(spec).find()

    def ensure(self, spec: EnvironmentSpec, say: Say, elsewhere: MadeElsewhere | None = None) -> BuiltEnvironment:
        """As the port has it; where another machine has made the environment already, the same is made from that."""
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
                return folder.find() or self._make(folder, spec, say, held, elsewhere)
        except OSError as error:
            raise EnvironmentFailed(
                f"The environment could not be written to {self._root}: {error.strerror or error}.",
                hint="Free space or set RUNYARD_HOME to a folder on another disk.",
            ) from error

    def lock_of(self, built: BuiltEnvironment) -> EnvironmentLock | None:
        """What another machine can make the same environment from; None for an interpreter of the user's own."""
        folder = EnvironmentFolder(self._root, built.key)
        facts = folder.facts() if built.key else None
        if facts is None:
            return None
        wheels = {key: wheel.path for key in facts.compiled if (wheel := self._wheels.find(key))}
        return EnvironmentLock(facts.python_minor, facts.lock, wheels)

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

    def _make(
        self, folder: EnvironmentFolder, spec: EnvironmentSpec, say: Say, held: int, elsewhere: MadeElsewhere | None
    ) -> BuiltEnvironment:
        for note in spec.notes:
            say(note)
        wanted = replace(spec, python=elsewhere.python, exact_python=True) if elsewhere else spec
        try:
            return self._construct(folder, wanted, say, held, elsewhere)
        except EnvironmentFailed as failure:
            needed = failure.facts.get("needs_python")
            if elsewhere or not needed or not spec.python_instead:
                raise
            say(
                f"'{failure.facts['package']}' needs Python {needed}, and {spec.python} is the SDK's default: "
                f"the submitter's {spec.python_instead} is taken."
            )
        instead = replace(spec, python=spec.python_instead, python_instead="")
        return self._construct(folder, instead, say, held, elsewhere)

    def _construct(
        self, folder: EnvironmentFolder, spec: EnvironmentSpec, say: Say, held: int, elsewhere: MadeElsewhere | None
    ) -> BuiltEnvironment:
        interpreter, note = choose(spec, discover(self._root / "interpreters.json", self._variables))
        say(note or f"Python {interpreter} at {interpreter.path}.")
        construction = Construction(
            folder=folder,
            spec=spec,
            interpreter=interpreter,
            variables=self._variables,
            wheels=self._wheels,
            bring=elsewhere.bring if elsewhere else never,
            held=held,
            say=say,
        )
        return construction.make(elsewhere.lock if elsewhere else None)
