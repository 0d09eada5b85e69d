import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from runyard.environments.durable import write_beside
from runyard.environments.interpreters import Interpreter
from runyard.environments.lockfile import Lock
from runyard.model.plan import EnvironmentSpec
from runyard.ports.environments import BuiltEnvironment

FORMAT = 1
LONGEST_SHEBANG = 127
SCRATCH = ".work"
KNOWN_LATER = ("builds", "library_links", "conda", "image", "sources", "locked")
"""Parts of a spec that make no difference to its key where they are empty: keys of before stay what they were."""


def key_of(spec: EnvironmentSpec) -> str:
    """Equal for specs that ask for the same, whatever was noted about them."""
    asked: dict[str, Any] = {**asdict(spec), "format": FORMAT}
    del asked["notes"], asked["python_instead"]
    for later in KNOWN_LATER:
        if not asked[later]:
            del asked[later]
    for name in ("requirements", "constraints", "build_constraints", "preferences"):
        asked[name] = sorted(asked[name])
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Facts:
    """What is written beside a finished environment."""

    lock: str
    """The text of its `Lock`; before there was a format, the packages alone."""
    version: str
    python_mtime: int
    compiled: Mapping[str, str] = field(default_factory=dict)
    """Requirements by the keys of the wheels that were compiled for them."""
    path_variables: Mapping[str, str] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    """Of an environment in a container image: what is known of that, its "id" and "bytes" among it."""

    @property
    def python_minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def whole_lock(self) -> str:
        if self.lock.startswith("# "):
            return self.lock
        return replace(Lock.parse(self.lock), python=self.version, compiled=tuple(self.compiled.values())).text()


class EnvironmentFolder:
    """One environment's place on disk.

    It is filled where it will stay, since its scripts name their interpreter by path. `.ready` is written last:
    a folder without it is what a killed builder left.
    """

    def __init__(self, root: Path, key: str) -> None:
        self.key = key
        self.path = root / key
        self.python = self.path / "bin" / "python"
        self.ready = self.path / ".ready"
        self.lock = root / "locks" / f"{key}.txt"
        self.builder_lock = root / "locks" / f"{key}.builder"
        self.use_lock = root / "locks" / f"{key}.use"
        self._scratch = root / "locks" / f"{key}{SCRATCH}"

    def find(self) -> BuiltEnvironment | None:
        """The finished environment, marked as used now; None when there is none or its interpreter has gone."""
        facts = self.facts()
        try:
            if facts is None or os.stat(self.python).st_mtime_ns != facts.python_mtime:
                return None
            os.utime(self.ready)
        except OSError:
            return None
        return self._built(facts)

    def facts(self) -> "Facts | None":
        """What the finished environment was made of; None when there is none."""
        try:
            return Facts(**json.loads(self.ready.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def make(self, interpreter: Interpreter) -> None:
        """An empty virtual environment in place of whatever is there."""
        self.remove()
        (self.path / "bin").mkdir(parents=True)
        (self.path / "lib" / f"python{interpreter.minor}" / "site-packages").mkdir(parents=True)
        os.symlink("lib", self.path / "lib64")
        os.symlink(interpreter.path, self.python)
        for name in ("python3", f"python{interpreter.minor}"):
            os.symlink("python", self.path / "bin" / name)
        (self.path / "pyvenv.cfg").write_text(
            f"home = {os.path.dirname(interpreter.path)}\n"
            f"include-system-site-packages = false\nversion = {interpreter}\n",
            encoding="utf-8",
        )

    def fresh_scratch(self) -> Path:
        """An empty folder for the holder of `builder_lock`."""
        self.remove_scratch()
        self._scratch.mkdir(parents=True)
        return self._scratch

    def remove_scratch(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)

    def adopt_scripts(self, interpreter: Interpreter) -> None:
        """Have the installed scripts start this environment's interpreter instead of the one it was made from."""
        theirs = b"#!" + os.fsencode(interpreter.path)
        for script in (self.path / "bin").iterdir():
            if script.is_symlink() or not script.is_file():
                continue
            content = script.read_bytes()
            first, newline, rest = content.partition(b"\n")
            if newline and first.startswith(theirs):
                mode = script.stat().st_mode
                script.unlink()  # it may share its bytes with the package cache
                script.write_bytes(self._shebang() + rest)
                script.chmod(mode)

    def finish(self, lock: Lock, *, compiled: Mapping[str, str], path_variables: Mapping[str, str]) -> BuiltEnvironment:
        """It can be found from now on. `compiled` are requirements by the keys of their wheels."""
        whole = replace(lock, compiled=tuple(compiled.values())).text()
        made = os.stat(self.python).st_mtime_ns
        facts = Facts(whole, lock.python, made, dict(compiled), dict(path_variables))
        # One fsync commits the links made before it as well on a journaling file system; the packages' bytes
        # have lain in the package cache before.
        write_beside(self.ready, json.dumps(vars(facts)).encode(), durable=True)
        return self._built(facts)

    def remove(self) -> None:
        """Quiet when gone. `.ready` goes first, so that nobody finds half of it."""
        self.ready.unlink(missing_ok=True)
        if self.path.exists():
            shutil.rmtree(self.path)

    def _built(self, facts: "Facts") -> BuiltEnvironment:
        return BuiltEnvironment(self.key, self.python, facts.whole_lock, facts.path_variables)

    def _shebang(self) -> bytes:
        python = os.fsencode(self.python)
        if len(python) + 2 <= LONGEST_SHEBANG and b" " not in python:
            return b"#!" + python + b"\n"
        return b"#!/bin/sh\n'''exec' \"" + python + b'" "$0" "$@"\n\' \'\'\'\n'
