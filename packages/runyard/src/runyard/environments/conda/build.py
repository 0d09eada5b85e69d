import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runyard.core.errors import EnvironmentFailed
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import CondaSpec, EnvironmentSpec
from runyard.environments.build import NOT_AS_LOCKED, NOT_FIXED_BY_RESOLVING, EnvironmentBuild
from runyard.environments.compiled_wheels import FetchWheel
from runyard.environments.conda.channels import Channels
from runyard.environments.conda.explicit_lock import explicit_lock, installed_versions, is_explicit, pip_part
from runyard.environments.conda.program import SOLVING, Conda
from runyard.environments.conda.tool import CondaTool
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.interpreters import Interpreter, interpreter_at
from runyard.environments.lockfile import LockFile
from runyard.environments.package_sources import PackageSources
from runyard.environments.planning.conda_packages import pypi_name
from runyard.environments.programs import LogLine
from runyard.environments.uv_installer import Uv


@dataclass(frozen=True)
class CondaBuild:
    """Builds an environment of a spec with conda packages: conda creates the prefix, then uv adds the pip packages.

    The caller holds the builder lock; `held` is the lock's descriptor.
    """

    folder: EnvironmentFolder
    spec: EnvironmentSpec
    tool: CondaTool
    sources: PackageSources
    fetch_wheel: FetchWheel
    held: int
    log: LogLine

    def make(self, given: LockFile | None = None) -> BuiltEnvironment:
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

    def _made(self, given: LockFile | None) -> BuiltEnvironment:
        if self.spec.locked:
            try:
                return self._made_of(LockFile.parse(self.spec.locked))
            except EnvironmentFailed as failure:
                raise EnvironmentFailed(failure.problem, hint=NOT_AS_LOCKED, **failure.facts) from failure
        before = given or self._locked_before()
        if before is not None:
            try:
                return self._made_of(before)
            except EnvironmentFailed as failure:
                if failure.facts.get("cause") in NOT_FIXED_BY_RESOLVING:
                    raise
                self.log("The packages that this environment had before cannot be installed any more; solving anew.")
        return self._made_of(None)

    def _locked_before(self) -> LockFile | None:
        try:
            text = self.folder.lock.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        return LockFile.parse(text) if is_explicit(text) else None

    def _made_of(self, lock: LockFile | None) -> BuiltEnvironment:
        conda_spec = self.spec.conda
        assert conda_spec is not None
        scratch = self.folder.fresh_scratch()
        with self.sources.with_certificates(scratch) as variables:
            channels = Channels.of(conda_spec, self.sources)
            offline = self.sources.settings.offline
            conda = Conda(self.tool, variables, channels, scratch, self.held, is_offline=offline)
            if lock:
                self.folder.remove()
                conda.create_locked(self.folder.path, lock.packages, self.log)
            else:
                self._solve(conda, conda_spec)
        by_pip = PipPartBuild(
            folder=self.folder,
            spec=replace(self.spec, requirements=conda_spec.requirements),
            interpreter=self._interpreter(),
            sources=self.sources,
            fetch_wheel=self.fetch_wheel,
            held=self.held,
            log=self.log,
            explicit=explicit_lock(self.folder.path),
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
                cause=FailureCause.NO_PYTHON,
                said="",
            )
        self.log(f"Python {found} at {found.path}, by {self.tool.name}.")
        return found


def _pythons(spec: EnvironmentSpec) -> Iterator[str]:
    """Versions to try: as asked for, their minor versions, then the fallback of the spec."""
    wanted = spec.python.split(",")
    minors = [".".join(python.split(".")[:2]) for python in wanted]
    yield from dict.fromkeys([*wanted, *minors, *filter(None, [spec.python_instead])])


ADDED = re.compile(r" \+ (?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+?)(?: \(from (?P<address>\S+)\))?")


class UvInCondaPrefix(Uv):
    """Resolves only what the conda prefix lacks, as pip does in an activated conda environment."""

    def _compile(
        self, spec: EnvironmentSpec, choice: Sequence[str], interpreter: Interpreter, log: LogLine, *, deps: bool = True
    ) -> str:
        if not deps:
            return super()._compile(spec, choice, interpreter, log, deps=False)
        wanted = [*choice, *spec.requirements]
        command = ["pip", "install", "--dry-run", "--python", interpreter.path]
        command += self._listed("--constraints", spec.constraints)
        command += self._listed("--build-constraints", spec.build_constraints)
        command += ["-r", self._written("requirements.txt", "\n".join([*wanted, ""]))]
        lines: list[str] = []
        try:
            self._run("resolving the packages", command, spec, lines.append)
        finally:
            for line in lines:
                log(line)
        added = [_requirement(found) for line in lines if (found := ADDED.fullmatch(line))]
        return self._hashed([line for line in wanted if line.startswith("-")], added, spec, interpreter, log)

    def _hashed(
        self,
        options: Sequence[str],
        exact: Sequence[str],
        spec: EnvironmentSpec,
        interpreter: Interpreter,
        log: LogLine,
    ) -> str:
        if not exact:
            return ""
        lock = self._scratch / "resolved.txt"
        lock.unlink(missing_ok=True)
        command = ["pip", "compile", "--python", interpreter.path, "--no-header", "--no-annotate", "--quiet"]
        command += ["--no-deps", "--generate-hashes", *self._listed("--build-constraints", spec.build_constraints)]
        command += ["-o", str(lock), self._written("exact.txt", "\n".join([*options, *exact, ""]))]
        self._run("locking the packages", command, spec, log)
        return lock.read_text(encoding="utf-8")


@dataclass(frozen=True)
class PipPartBuild(EnvironmentBuild):
    """Installs the pip packages into a prefix that conda has filled; `explicit` is the lock of conda's part."""

    explicit: str

    def _uv(self, variables: Mapping[str, str], scratch: Path) -> Uv:
        return UvInCondaPrefix(variables, scratch, self.held)

    def _filled(self, uv: Uv, given: LockFile | None) -> LockFile:
        """Install the pip part of the given lock, else resolve it."""
        lock = given or LockFile(self.explicit + self._resolved(uv))
        self._fill(uv, lock)
        return lock if self.spec.locked else self._keep(lock)

    def _resolved(self, uv: Uv) -> str:
        asked = any(not line.startswith("-") for line in self.spec.requirements)
        return uv.resolve(self.spec, self.interpreter, self.log) if asked or self.spec.choices else ""

    def _fill(self, uv: Uv, lock: LockFile) -> None:
        lines = pip_part(lock.packages)
        if lines.strip():
            uv.install(lines, self.spec, self.folder.path, self.interpreter, self.log, offline=False)

    def _add_compiled(self, uv: Uv, lock: LockFile, variables: Mapping[str, str]) -> dict[str, str]:
        installed_lines = "".join(
            f"{pypi_name(name)}=={version}\n" for name, version in installed_versions(self.folder.path).items()
        )
        return super()._add_compiled(uv, replace(lock, packages=installed_lines + lock.packages), variables)


def _requirement(added: re.Match[str]) -> str:
    if added["address"]:
        return f"{added['name']} @ {added['address']}"
    return f"{added['name']}=={added['version']}"
