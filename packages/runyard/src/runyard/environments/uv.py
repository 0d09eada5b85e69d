import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from runyard.environments.compiled import Bring, CompiledWheels, never
from runyard.environments.conda.choosing import conda_for
from runyard.environments.conda.construction import CondaConstruction
from runyard.environments.construction import Construction
from runyard.environments.durable import locked, shared
from runyard.environments.failures import not_written
from runyard.environments.folder import EnvironmentFolder, key_of
from runyard.environments.lockfile import Lock
from runyard.environments.programs import Say
from runyard.environments.python_downloads import obtain
from runyard.environments.sources import Sources
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.package_settings import PackageSettings
from runyard.model.plan import EnvironmentSpec
from runyard.planning.plan_json import with_addresses
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
    interpreters, proxies, certificates and package indexes for uv. `settings` are the workspace's, asked for when
    something is built and never to find what is; then `addresses`: those with passwords, by what stands for them in
    the spec.
    """

    def __init__(
        self,
        root: Path,
        variables: Mapping[str, str],
        settings: Callable[[], PackageSettings] = PackageSettings,
        addresses: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._root, self._variables, self._settings, self._addresses = root, variables, settings, addresses

    def find(self, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        if spec.user_managed and not spec.image:
            return BuiltEnvironment("", Path(spec.python), "") if os.access(spec.python, os.X_OK) else None
        return self._folder(spec).find() or self._find_as_locked(spec)

    def ensure(self, spec: EnvironmentSpec, say: Say, elsewhere: MadeElsewhere | None = None) -> BuiltEnvironment:
        """As the port has it; where another machine has made the environment already, the same is made from that."""
        found = self.find(spec)
        if found:
            return found
        if spec.user_managed and not spec.image:
            raise EnvironmentFailed(
                f"There is no interpreter {spec.python!r} on this machine.",
                hint="Set python.interpreter_path to one, or user_managed_dependencies to False.",
                cause=Cause.NO_PYTHON,
                said="",
            )
        folder = self._folder(spec)
        try:
            with locked(folder.builder_lock, lambda: say("Another run is building this environment; waiting.")) as held:
                return folder.find() or self._make(folder, spec, say, held, elsewhere)
        except OSError as error:
            raise not_written(self._root, error) from error

    def lock_of(self, built: BuiltEnvironment) -> EnvironmentLock | None:
        """What another machine can make the same environment from; None for an interpreter of the user's own."""
        folder = EnvironmentFolder(self._root, built.key)
        facts = folder.facts() if built.key else None
        if facts is None:
            return None
        kept = CompiledWheels(self._root, self._variables)
        wheels = {key: wheel.path for key in facts.compiled if (wheel := kept.find(key))}
        return EnvironmentLock(facts.python_minor, facts.whole_lock, wheels)

    @contextmanager
    def hold(self, built: BuiltEnvironment) -> Iterator[int | None]:
        """Keep an environment from being pruned. EnvironmentFailed if that has happened already. As `Environments`."""
        if not built.key:
            yield None
            return
        folder = EnvironmentFolder(self._root, built.key)
        with shared(folder.use_lock) as descriptor:
            if not folder.ready.exists():
                raise EnvironmentFailed(
                    f"Environment {built.key} was removed meanwhile.",
                    hint="Submit the run again.",
                    cause=Cause.UNKNOWN,
                    said="",
                )
            yield descriptor

    def _folder(self, spec: EnvironmentSpec) -> EnvironmentFolder:
        return EnvironmentFolder(self._root, key_of(spec))

    def _find_as_locked(self, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        """The environment that was made without a lock and came to just the wished one."""
        found = self._folder(replace(spec, locked="")).find() if spec.locked else None
        return found if found and Lock.parse(found.lock).is_like(Lock.parse(spec.locked)) else None

    def _make(
        self, folder: EnvironmentFolder, spec: EnvironmentSpec, say: Say, held: int, elsewhere: MadeElsewhere | None
    ) -> BuiltEnvironment:
        for note in spec.notes:
            say(note)
        python = Lock.parse(spec.locked).python_minor or (elsewhere.python if elsewhere else "")
        sources = Sources(self._variables, self._settings())
        spec = with_addresses(spec, self._addresses())  # its key is of the spec without passwords
        wanted = replace(spec, python=python, exact_python=True) if python else spec
        try:
            return self._construct(folder, wanted, sources, say, held, elsewhere)
        except EnvironmentFailed as failure:
            needed = failure.facts.get("needs_python")
            if python or not needed or not spec.python_instead:
                raise
            say(
                f"'{failure.facts['package']}' needs Python {needed}, and {spec.python} is the SDK's default: "
                f"the submitter's {spec.python_instead} is taken."
            )
        instead = replace(spec, python=spec.python_instead, python_instead="")
        return self._construct(folder, instead, sources, say, held, elsewhere)

    def _construct(
        self,
        folder: EnvironmentFolder,
        spec: EnvironmentSpec,
        sources: Sources,
        say: Say,
        held: int,
        elsewhere: MadeElsewhere | None,
    ) -> BuiltEnvironment:
        given, bring = (Lock.parse(elsewhere.lock), elsewhere.bring) if elsewhere else (None, never)
        tool = conda_for(spec, sources, say, elsewhere.lock if elsewhere else "")
        if tool:
            return CondaConstruction(folder, spec, tool, sources, bring, held, say).make(given)
        interpreter, note = obtain(spec, self._root / "interpreters.json", sources, say)
        say(note or f"Python {interpreter} at {interpreter.path}.")
        construction = Construction(
            folder=folder,
            spec=spec,
            interpreter=interpreter,
            sources=sources,
            bring=bring,
            held=held,
            say=say,
        )
        return construction.make(given)
