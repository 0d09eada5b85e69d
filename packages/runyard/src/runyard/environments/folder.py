import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from runyard.core.durable_files import replace_file
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.interpreters import Interpreter
from runyard.environments.lockfile import LockFile

FORMAT = 1
LONGEST_SHEBANG = 127
SCRATCH = ".work"
KNOWN_LATER = ("builds", "library_links", "conda", "image", "sources", "locked")
"""Fields of a spec that are left out of its key when empty, so that keys of older versions stay valid."""


def environment_key(spec: EnvironmentSpec) -> str:
    """Key of the environment: equal for specs that ask for the same, whatever their notes."""
    fields: dict[str, Any] = {**asdict(spec), "format": FORMAT}
    del fields["notes"], fields["python_instead"]
    for later in KNOWN_LATER:
        if not fields[later]:
            del fields[later]
    for name in ("requirements", "constraints", "build_constraints", "preferences"):
        fields[name] = sorted(fields[name])
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class EnvironmentFacts:
    """Content of `.ready`: what a finished environment was built from."""

    lock: str
    """Text of its `LockFile`; the packages alone in environments of old versions."""
    version: str
    python_mtime: int
    compiled: Mapping[str, str] = field(default_factory=dict)
    """Requirements by the keys of their compiled wheels."""
    path_variables: Mapping[str, str] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `ImageDetails` for an environment in a container image."""

    @property
    def python_minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def whole_lock(self) -> str:
        if self.lock.startswith("# "):
            return self.lock
        return replace(LockFile.parse(self.lock), python=self.version, compiled=tuple(self.compiled.values())).text()


class EnvironmentFolder:
    """The folder of one environment, with its lock files.

    It is filled in place, since its scripts name their interpreter by path. `.ready` is written last: a folder
    without it is a leftover of a killed build.
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
        """The finished environment, marked as used now; None if there is none or its interpreter was removed."""
        facts = self.facts()
        try:
            if facts is None or os.stat(self.python).st_mtime_ns != facts.python_mtime:
                return None
            os.utime(self.ready)
        except OSError:
            return None
        return self._built(facts)

    def facts(self) -> "EnvironmentFacts | None":
        """The facts of the finished environment; None if there is none."""
        try:
            return EnvironmentFacts(**json.loads(self.ready.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def make(self, interpreter: Interpreter) -> None:
        """Create an empty virtual environment; removes what was there."""
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
        """Point the shebangs of installed scripts to this environment's interpreter."""
        old_shebang = b"#!" + os.fsencode(interpreter.path)
        for script in (self.path / "bin").iterdir():
            if script.is_symlink() or not script.is_file():
                continue
            content = script.read_bytes()
            first, newline, rest = content.partition(b"\n")
            if newline and first.startswith(old_shebang):
                mode = script.stat().st_mode
                script.unlink()  # may be a hard link into the package cache
                script.write_bytes(self._shebang() + rest)
                script.chmod(mode)

    def finish(
        self, lock: LockFile, *, compiled: Mapping[str, str], path_variables: Mapping[str, str]
    ) -> BuiltEnvironment:
        """Mark the build complete; `find` returns it afterwards. `compiled`: requirements by keys of their wheels."""
        lock_text = replace(lock, compiled=tuple(compiled.values())).text()
        python_mtime = os.stat(self.python).st_mtime_ns
        facts = EnvironmentFacts(lock_text, lock.python, python_mtime, dict(compiled), dict(path_variables))
        # On a journaling file system this fsync also commits the links made before it; the files of the packages are
        # in the package cache already.
        replace_file(self.ready, json.dumps(vars(facts)).encode(), durable=True)
        return self._built(facts)

    def remove(self) -> None:
        """Remove the environment; quiet when gone. `.ready` goes first, so that `find` never returns half of it."""
        self.ready.unlink(missing_ok=True)
        if self.path.exists():
            shutil.rmtree(self.path)

    def _built(self, facts: "EnvironmentFacts") -> BuiltEnvironment:
        return BuiltEnvironment(self.key, self.python, facts.whole_lock, facts.path_variables)

    def _shebang(self) -> bytes:
        python = os.fsencode(self.python)
        if len(python) + 2 <= LONGEST_SHEBANG and b" " not in python:
            return b"#!" + python + b"\n"
        return b"#!/bin/sh\n'''exec' \"" + python + b'" "$0" "$@"\n\' \'\'\'\n'
