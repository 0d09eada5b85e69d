import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runyard.environments.conda.explicit import installed, pip_part
from runyard.environments.construction import Construction
from runyard.environments.installer import Uv
from runyard.environments.interpreters import Interpreter
from runyard.environments.lockfile import Lock
from runyard.environments.programs import Say
from runyard.model.plan import EnvironmentSpec
from runyard.planning.conda_names import twin_of

ADDED = re.compile(r" \+ (?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+?)(?: \(from (?P<address>\S+)\))?")


class UvBesideConda(Uv):
    """Resolves only what the conda prefix lacks, as pip does in an activated conda environment."""

    def _compile(
        self, spec: EnvironmentSpec, choice: Sequence[str], interpreter: Interpreter, log: Say, *, deps: bool = True
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
        self, options: Sequence[str], exact: Sequence[str], spec: EnvironmentSpec, interpreter: Interpreter, log: Say
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
class BesideConda(Construction):
    """Installs the pip packages into a prefix that conda has filled; `explicit` is the lock of conda's part."""

    explicit: str

    def _uv(self, variables: Mapping[str, str], scratch: Path) -> Uv:
        return UvBesideConda(variables, scratch, self.held)

    def _filled(self, uv: Uv, given: Lock | None) -> Lock:
        """Install the pip part of the given lock, else resolve it."""
        lock = given or Lock(self.explicit + self._resolved(uv))
        self._fill(uv, lock)
        return lock if self.spec.locked else self._keep(lock)

    def _resolved(self, uv: Uv) -> str:
        asked = any(not line.startswith("-") for line in self.spec.requirements)
        return uv.resolve(self.spec, self.interpreter, self.log) if asked or self.spec.choices else ""

    def _fill(self, uv: Uv, lock: Lock) -> None:
        lines = pip_part(lock.packages)
        if lines.strip():
            uv.install(lines, self.spec, self.folder.path, self.interpreter, self.log, offline=False)

    def _add_compiled(self, uv: Uv, lock: Lock, variables: Mapping[str, str]) -> dict[str, str]:
        installed_lines = "".join(
            f"{twin_of(name)}=={version}\n" for name, version in installed(self.folder.path).items()
        )
        return super()._add_compiled(uv, replace(lock, packages=installed_lines + lock.packages), variables)


def _requirement(added: re.Match[str]) -> str:
    if added["address"]:
        return f"{added['name']} @ {added['address']}"
    return f"{added['name']}=={added['version']}"
