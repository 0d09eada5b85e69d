from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from runyard.core.durable_files import replace_file
from runyard.core.errors import EnvironmentFailed
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.compiled_wheels import CompiledWheel, CompiledWheels, FetchWheel
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.index_settings import NAMES_INDEX
from runyard.environments.interpreters import Interpreter
from runyard.environments.lockfile import LockFile
from runyard.environments.package_sources import PackageSources
from runyard.environments.planning.source_builds import SkippedBuild, SourceBuild, source_build
from runyard.environments.programs import LogLine
from runyard.environments.toolchain import link_libraries
from runyard.environments.uv_installer import Uv

NOT_AS_LOCKED = (
    "The environment is to be made again exactly as it was locked. Where that cannot be any more, submit the "
    "definition anew instead of running it again: then its packages are resolved afresh."
)
# Resolving again does not help, and must not silently accept files that differ from the locked ones.
NOT_FIXED_BY_RESOLVING = (FailureCause.CHECKSUM, FailureCause.DISK_FULL, FailureCause.KILLED)


def checked_lock(lock: LockFile) -> LockFile:
    """The lock, if it has only pinned packages; it may have come over the wire. Raises EnvironmentFailed."""
    if lock.foreign_lines:
        line = lock.foreign_lines[0]
        raise EnvironmentFailed(
            f"The lock that the environment is to be made from holds {line!r}, which no lock of ours has.",
            hint="Submit the definition anew instead of running it again.",
            cause=FailureCause.UNKNOWN,
            said=line,
        )
    return lock


@dataclass(frozen=True)
class EnvironmentBuild:
    """Builds one environment. The caller holds its builder lock; `held` is the lock's descriptor."""

    folder: EnvironmentFolder
    spec: EnvironmentSpec
    interpreter: Interpreter
    sources: PackageSources
    fetch_wheel: FetchWheel
    held: int
    log: LogLine

    def make(self, given: LockFile | None = None) -> BuiltEnvironment:
        """Install the `given` lock, else the lock of an earlier build; resolve again if that cannot be installed.

        A locked spec is never resolved again. A failed build is removed.
        """
        try:
            scratch = self.folder.fresh_scratch()
            with self.sources.with_certificates(scratch) as variables:
                uv = self._uv(variables, scratch)
                lock = self._filled(uv, given)
                compiled = self._add_compiled(uv, lock, variables)
                self.folder.adopt_scripts(self.interpreter)
                paths = link_libraries(self.folder.path, self.spec.library_links, variables)
            return self.folder.finish(self._of_here(lock), compiled=compiled, path_variables=paths)
        except (OSError, EnvironmentFailed):
            self.folder.remove()
            raise
        finally:
            self.folder.remove_scratch()

    def _uv(self, variables: Mapping[str, str], scratch: Path) -> Uv:
        return Uv(variables, scratch, self.held)

    def _filled(self, uv: Uv, given: LockFile | None) -> LockFile:
        if self.spec.locked:
            lock = checked_lock(LockFile.parse(self.spec.locked))
            try:
                self._fill(uv, lock)
            except EnvironmentFailed as failure:
                raise EnvironmentFailed(failure.problem, hint=NOT_AS_LOCKED, **failure.facts) from failure
            return lock
        before = checked_lock(given) if given else self._locked_before()
        if before is not None:
            try:
                self._fill(uv, before)
            except EnvironmentFailed as failure:
                if failure.facts.get("cause") in NOT_FIXED_BY_RESOLVING:
                    raise
                self.log("The versions that this environment had before cannot be installed any more; resolving anew.")
            else:
                return self._keep(before)
        lock = self._keep(LockFile(uv.resolve(self.spec, self.interpreter, self.log)))
        self._fill(uv, lock)
        return lock

    def _of_here(self, lock: LockFile) -> LockFile:
        return lock.for_this_machine(str(self.interpreter))

    def _keep(self, lock: LockFile) -> LockFile:
        lock = self._of_here(lock)
        replace_file(self.folder.lock, lock.text().encode())
        return lock

    def _locked_before(self) -> LockFile | None:
        """The lock of an earlier build for the same Python and platform; None if there is none."""
        try:
            lock = LockFile.parse(self.folder.lock.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            return None
        return lock if lock.is_for(str(self.interpreter)) else None

    def _fill(self, uv: Uv, lock: LockFile) -> None:
        """Install from uv's cache if it has everything, without asking an index; else from the indexes."""
        self.folder.make(self.interpreter)
        if not lock.packages.strip():
            return
        into, lines = self.folder.path, list[str]()
        try:
            uv.install(lock.packages, self.spec, into, self.interpreter, lines.append, offline=True)
        except EnvironmentFailed:
            # uv would take half-installed packages for installed.
            self.folder.make(self.interpreter)
            uv.install(lock.packages, self.spec, into, self.interpreter, self.log, offline=False)
        else:
            for line in lines:
                self.log(line)

    def _add_compiled(self, uv: Uv, lock: LockFile, variables: Mapping[str, str]) -> dict[str, str]:
        """Build and install the packages that are compiled; returns requirements by the keys of their wheels."""
        compiled: dict[str, str] = {}
        options = [line for line in self.spec.requirements if line.startswith("-")]
        if self.sources.settings.index_url:
            options = [line for line in options if not NAMES_INDEX.match(line)]
        for requirement in self._to_compile(uv):
            build = source_build(requirement, "\n".join(lock.versions))
            if isinstance(build, SkippedBuild):
                self.log(build.why)
                continue
            build = replace(build, origin=tuple(filter(None, (self.spec.sources, *options))))
            with self._compiled(build, options, variables) as wheel:
                uv.install_wheel(wheel.path, self.spec, self.folder.path, self.interpreter, self.log)
            compiled[wheel.key] = build.requirement
        return compiled

    def _compiled(
        self, build: SourceBuild, options: Sequence[str], variables: Mapping[str, str]
    ) -> AbstractContextManager[CompiledWheel]:
        """The wheel, cached or built; kept from pruning until exit."""
        return CompiledWheels(self.folder.path.parent, variables).ensure(
            build,
            self.folder.python,
            self.interpreter,
            options=options,
            fetch_wheel=self.fetch_wheel,
            held=self.held,
            log=self.log,
        )

    def _to_compile(self, uv: Uv) -> list[str]:
        if self.spec.locked:
            return list(LockFile.parse(self.spec.locked).compiled)
        exact = [uv.exact(asked, self.spec, self.interpreter) for asked in self.spec.builds]
        return list(filter(None, exact))
