import hashlib
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runyard.environments.durable import write_beside
from runyard.environments.interpreters import Interpreter
from runyard.model.plan import EnvironmentSpec
from runyard.ports.environments import BuiltEnvironment

FORMAT = 1
LONGEST_SHEBANG = 127


def key_of(spec: EnvironmentSpec) -> str:
    """Equal for specs that ask for the same, whatever was noted about them."""
    asked: dict[str, Any] = {**asdict(spec), "format": FORMAT}
    del asked["notes"]
    for later in ("builds", "library_links"):  # keys made before these were known stay what they were
        if not asked[later]:
            del asked[later]
    for name in ("requirements", "constraints", "build_constraints", "preferences"):
        asked[name] = sorted(asked[name])
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:24]


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
        self._scratch = root / "locks" / f"{key}.work"

    def find(self) -> BuiltEnvironment | None:
        """The finished environment, marked as used now; None when there is none or its interpreter has gone."""
        try:
            facts = json.loads(self.ready.read_bytes())
            if os.stat(self.python).st_mtime_ns != facts["python_mtime"]:
                return None
            os.utime(self.ready)
        except (OSError, ValueError):
            return None
        return BuiltEnvironment(self.key, self.python, facts["lock"])

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

    def finish(self, lock: str, interpreter: Interpreter) -> BuiltEnvironment:
        facts = {"lock": lock, "version": str(interpreter), "python_mtime": os.stat(self.python).st_mtime_ns}
        # One fsync commits the links made before it as well on a journaling file system; the packages' bytes
        # have lain in the package cache before.
        write_beside(self.ready, json.dumps(facts).encode(), durable=True)
        return BuiltEnvironment(self.key, self.python, lock)

    def remove(self) -> None:
        """Quiet when gone. `.ready` goes first, so that nobody finds half of it."""
        self.ready.unlink(missing_ok=True)
        if self.path.exists():
            shutil.rmtree(self.path)

    def _shebang(self) -> bytes:
        python = os.fsencode(self.python)
        if len(python) + 2 <= LONGEST_SHEBANG and b" " not in python:
            return b"#!" + python + b"\n"
        return b"#!/bin/sh\n'''exec' \"" + python + b'" "$0" "$@"\n\' \'\'\'\n'
