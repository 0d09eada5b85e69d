import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runyard.containers.archives import writing_tar
from runyard.environments.images.tools import linked_libraries
from runyard.environments.interpreters import Interpreter
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause

ASKED_SECONDS = 60
CHECKED = ("ssl", "zlib", "ctypes", "hashlib", "bz2", "lzma", "sqlite3", "socket", "decimal")
ASK = (
    "import importlib, json, sys, sysconfig\n"
    "def there(name):\n"
    "    try: return bool(importlib.import_module(name))\n"
    "    except ImportError: return False\n"
    "paths = sysconfig.get_paths()\n"
    f"print(json.dumps([paths['stdlib'], paths['include'], [name for name in {CHECKED!r} if there(name)]]))"
)
LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo"})
# The C library must be the image's own, since it belongs to the loader.
OF_THE_C_LIBRARY = re.compile(r"(libc|libm|libpthread|libdl|librt|libutil|libresolv|linux-vdso)\.so")


@dataclass(frozen=True)
class InterpreterFiles:
    """Files of an interpreter of this machine, to be copied into an image."""

    interpreter: Interpreter
    stdlib: Path
    include: Path
    modules: tuple[str, ...]
    """Importable modules of the standard library that need shared libraries, such as ssl."""

    @classmethod
    def of(cls, interpreter: Interpreter) -> "InterpreterFiles":
        try:
            answer = subprocess.run(
                [interpreter.path, "-I", "-S", "-c", ASK],
                env={},
                capture_output=True,
                timeout=ASKED_SECONDS,
                stdin=subprocess.DEVNULL,
            )
            stdlib, include, modules = json.loads(answer.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise EnvironmentFailed(
                f"Python {interpreter} at {interpreter.path} does not tell where its library is.",
                hint="Reinstall it, or choose an image that has the Python you want.",
                cause=Cause.NO_PYTHON,
                said=str(error),
            ) from error
        return cls(interpreter, Path(stdlib), Path(include), tuple(modules))

    @property
    def prefix(self) -> str:
        """Its folder in the image."""
        return f"/azureml-envs/python-{self.interpreter}"

    @property
    def python(self) -> str:
        return f"{self.prefix}/bin/python{self.interpreter.minor}"

    @property
    def identity(self) -> str:
        stat = os.stat(self.interpreter.path)
        return f"{self.interpreter.path} {stat.st_mtime_ns} {stat.st_size}"

    @property
    def needs_libraries(self) -> bool:
        """Whether the executable itself needs shared libraries beyond the C library."""
        linked = linked_libraries(Path(self.interpreter.path))
        return any(not OF_THE_C_LIBRARY.match(library.name) for library in linked)

    def archive(self, into: IO[bytes]) -> None:
        """Write a tar with the interpreter, its standard library, headers and linked shared libraries, with paths from
        the root of the image."""
        prefix, minor = self.prefix.lstrip("/"), self.interpreter.minor
        with writing_tar(into, follow_links=True) as tar:
            tar.add(self.interpreter.path, f"{prefix}/bin/python{minor}", filter=_of_root)
            for name in ("python3", "python"):
                link = tarfile.TarInfo(f"{prefix}/bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, f"python{minor}"
                tar.addfile(link)
            for path in _files(self.stdlib):
                tar.add(path, f"{prefix}/lib/python{minor}/{path.relative_to(self.stdlib)}", filter=_of_root)
            for path in _files(self.include):
                tar.add(path, f"{prefix}/include/{self.include.name}/{path.relative_to(self.include)}", filter=_of_root)
            for library in self._libraries():
                tar.add(library, f"{prefix}/lib/{library.name}", filter=_of_root)

    def _libraries(self) -> list[Path]:
        modules = sorted(path for path in (self.stdlib / "lib-dynload").glob("*.so") if _is_wanted(path))
        linked = [Path(self.interpreter.path), *modules]
        found = dict.fromkeys(library for program in linked for library in linked_libraries(program))
        return [library for library in found if not OF_THE_C_LIBRARY.match(library.name)]


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and _is_wanted(path):
                yield path


def _is_wanted(path: Path) -> bool:
    return path.suffix != ".a" and ".opt-" not in path.name and not path.name.startswith("_tkinter.")


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    if entry.isfile() or entry.isdir():
        entry.mode = (entry.mode | 0o444) & 0o755
    return entry
