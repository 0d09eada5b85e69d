import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from runyard.core.durable_files import exclusive_lock, shared_lock
from runyard.core.errors import EnvironmentFailed
from runyard.core.plan_json import with_private_addresses
from runyard.core.ports.environments import BuiltEnvironment, EnvironmentLock
from runyard.core.records.environments import FailureCause, PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.build import EnvironmentBuild
from runyard.environments.compiled_wheels import CompiledWheels, FetchWheel, no_wheel
from runyard.environments.conda.build import CondaBuild
from runyard.environments.conda.tool import choose_conda
from runyard.environments.failures import write_failed
from runyard.environments.folder import EnvironmentFolder, environment_key
from runyard.environments.lockfile import LockFile
from runyard.environments.package_sources import PackageSources
from runyard.environments.programs import LogLine
from runyard.environments.python_downloads import obtain_interpreter


@dataclass(frozen=True)
class PrebuiltEnvironment:
    """An environment that another machine has built: Python version, lock, and how to fetch its compiled wheels."""

    python: str
    lock: str
    fetch_wheel: FetchWheel


class UvEnvironments:
    """Virtual environments below one folder, built by uv or conda. Implements `EnvironmentBuilder`.

    Safe across processes. `variables` are the submitter's: PATH and HOME for finding interpreters, and proxies,
    certificates and package indexes for uv. `settings` returns the workspace's settings and is called only to build;
    `addresses`, called after it, returns URLs with passwords by the marked URLs that stand for them in the spec.
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

    def ensure(
        self, spec: EnvironmentSpec, log: LogLine, prebuilt: PrebuiltEnvironment | None = None
    ) -> BuiltEnvironment:
        """See `EnvironmentBuilder`; `prebuilt` is what another machine has built of the same spec."""
        found = self.find(spec)
        if found:
            return found
        if spec.user_managed and not spec.image:
            raise EnvironmentFailed(
                f"There is no interpreter {spec.python!r} on this machine.",
                hint="Set python.interpreter_path to one, or user_managed_dependencies to False.",
                cause=FailureCause.NO_PYTHON,
                said="",
            )
        folder = self._folder(spec)
        try:
            with exclusive_lock(
                folder.builder_lock, lambda: log("Another run is building this environment; waiting.")
            ) as held:
                return folder.find() or self._make(folder, spec, log, held, prebuilt)
        except OSError as error:
            raise write_failed(self._root, error) from error

    def lock_of(self, built: BuiltEnvironment) -> EnvironmentLock | None:
        """The lock and wheels for another machine; None for an interpreter of the user's own."""
        folder = EnvironmentFolder(self._root, built.key)
        facts = folder.facts() if built.key else None
        if facts is None:
            return None
        kept = CompiledWheels(self._root, self._variables)
        wheels = {key: wheel.path for key in facts.compiled if (wheel := kept.find(key))}
        return EnvironmentLock(facts.python_minor, facts.whole_lock, wheels)

    @contextmanager
    def hold(self, built: BuiltEnvironment) -> Iterator[int | None]:
        """See `LocalEnvironments.hold`."""
        if not built.key:
            yield None
            return
        folder = EnvironmentFolder(self._root, built.key)
        with shared_lock(folder.use_lock) as descriptor:
            if not folder.ready.exists():
                raise EnvironmentFailed(
                    f"Environment {built.key} was removed meanwhile.",
                    hint="Submit the run again.",
                    cause=FailureCause.UNKNOWN,
                    said="",
                )
            yield descriptor

    def _folder(self, spec: EnvironmentSpec) -> EnvironmentFolder:
        return EnvironmentFolder(self._root, environment_key(spec))

    def _find_as_locked(self, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        """An environment that was built without this lock and has the same packages."""
        found = self._folder(replace(spec, locked="")).find() if spec.locked else None
        return found if found and LockFile.parse(found.lock).is_like(LockFile.parse(spec.locked)) else None

    def _make(
        self,
        folder: EnvironmentFolder,
        spec: EnvironmentSpec,
        log: LogLine,
        held: int,
        prebuilt: PrebuiltEnvironment | None,
    ) -> BuiltEnvironment:
        for note in spec.notes:
            log(note)
        python = LockFile.parse(spec.locked).python_minor or (prebuilt.python if prebuilt else "")
        sources = PackageSources(self._variables, self._settings())
        spec = with_private_addresses(spec, self._addresses())  # the key was computed without passwords
        wanted = replace(spec, python=python, exact_python=True) if python else spec
        try:
            return self._construct(folder, wanted, sources, log, held, prebuilt)
        except EnvironmentFailed as failure:
            needed = failure.facts.get("needs_python")
            if python or not needed or not spec.python_instead:
                raise
            log(
                f"'{failure.facts['package']}' needs Python {needed}, and {spec.python} is the SDK's default: "
                f"the submitter's {spec.python_instead} is taken."
            )
        instead = replace(spec, python=spec.python_instead, python_instead="")
        return self._construct(folder, instead, sources, log, held, prebuilt)

    def _construct(
        self,
        folder: EnvironmentFolder,
        spec: EnvironmentSpec,
        sources: PackageSources,
        log: LogLine,
        held: int,
        prebuilt: PrebuiltEnvironment | None,
    ) -> BuiltEnvironment:
        given, fetch_wheel = (LockFile.parse(prebuilt.lock), prebuilt.fetch_wheel) if prebuilt else (None, no_wheel)
        tool = choose_conda(spec, sources, log, prebuilt.lock if prebuilt else "")
        if tool:
            return CondaBuild(folder, spec, tool, sources, fetch_wheel, held, log).make(given)
        interpreter, note = obtain_interpreter(spec, self._root / "interpreters.json", sources, log)
        log(note or f"Python {interpreter} at {interpreter.path}.")
        construction = EnvironmentBuild(
            folder=folder,
            spec=spec,
            interpreter=interpreter,
            sources=sources,
            fetch_wheel=fetch_wheel,
            held=held,
            log=log,
        )
        return construction.make(given)
