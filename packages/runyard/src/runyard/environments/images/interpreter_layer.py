"""The layer of an image that holds an interpreter of this machine, for images without the right Python."""

import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.environments.containers.containers import ContainerSpec
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.records import ImageFacts
from runyard.environments.containers.transport import tar_writer
from runyard.environments.images.container_uv import linked_libraries
from runyard.environments.images.names import BASE, HOME, ImageNames
from runyard.environments.interpreters import Interpreter, uv_has
from runyard.environments.programs import LogLine

LIBRARIES = "LD_LIBRARY_PATH"


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
                cause=FailureCause.NO_PYTHON,
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
        with tar_writer(into, follow_links=True) as tar:
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


@dataclass(frozen=True)
class InterpreterLayer:
    engine: ContainerEngine
    naming: ImageNames
    container: str
    """Name for its containers."""
    scratch: Path
    log: LogLine

    def on(self, base: ImageFacts, candidates: Sequence[Interpreter]) -> tuple[ImageFacts, str, Interpreter]:
        """Add the first candidate that runs in the base image; returns the image, its path in it, and the interpreter.
        Raises EnvironmentFailed if none runs."""
        failures = []
        for interpreter in candidates:
            files = InterpreterFiles.of(interpreter)
            name = self.naming.python(f"{base.id} {files.identity}")
            found = self.engine.images.find(name)
            if found is not None:
                self.log(f"Python {interpreter} of this machine was put into this image before; that is taken.")
                return found, files.python, interpreter
            self.log(f"Putting Python {interpreter} of this machine ({interpreter.path}) into the image, as a layer.")
            image, error = self._layer_with(base, files, name)
            if image is not None:
                return image, files.python, interpreter
            self.log(f"It does not run there: {error}")
            failures.append(error)
        raise EnvironmentFailed(
            f"Python {candidates[0]} of this machine does not run in the image, whose C library is another or older.",
            hint="Choose an image that has the Python you want, or a newer one of Debian, Ubuntu or the like; or have "
            f"{_by_uv(candidates[0].minor)} put one on this machine that runs nearly everywhere.",
            cause=FailureCause.NO_PYTHON,
            said=failures[-1],
        )

    def _layer_with(self, base: ImageFacts, files: InterpreterFiles, name: str) -> tuple[ImageFacts | None, str]:
        """The image, or why the interpreter does not run in it.

        Sets LD_LIBRARY_PATH to the copied libraries only if the interpreter does not run without it: they may differ
        from the versions that other programs of the image need.
        """
        searched = ":".join(filter(None, (f"{files.prefix}/lib", base.variables.get(LIBRARIES))))
        with (self.scratch / "interpreter.tar").open("w+b") as archive:
            files.archive(archive)
            error = ""
            for variables in ({LIBRARIES: searched},) if files.needs_libraries else ({}, {LIBRARIES: searched}):
                archive.seek(0)
                image, error = self._commit_if_it_runs(base, files, name, archive, variables)
                if image is not None:
                    return image, ""
        return None, error

    def _commit_if_it_runs(
        self, base: ImageFacts, files: InterpreterFiles, name: str, archive: IO[bytes], variables: Mapping[str, str]
    ) -> tuple[ImageFacts | None, str]:
        """Copy the files into a container, start the interpreter and import its modules; commit if that works."""
        containers, labels = self.engine.containers, {HOME: self.naming.home, BASE: base.id}
        command = (files.python, "-I", "-B", "-c", f"import {', '.join(('sys', *files.modules))}")
        container = containers.create(
            ContainerSpec(
                base.id,
                command,
                variables=variables,
                labels=labels,
                working_folder="/",
                user="0:0",
                name=self.container,
            )
        )
        try:
            containers.put_archive(container, "/", archive)
            try:
                containers.start(container)
                ended = containers.wait(container)
            except EnvironmentFailed as failure:
                if failure.facts.get("cause") is not FailureCause.ENGINE_FAILED:
                    raise
                return None, str(failure.facts.get("said"))
            if ended.status:
                return None, ended.error or f"it ended with {ended.status}"
            changes = tuple(f"ENV {name}={value}" for name, value in variables.items())
            message = f"Python {files.interpreter}"
            return self.engine.images.commit(container, name, labels=labels, changes=changes, message=message), ""
        finally:
            containers.remove(container)


def _by_uv(minor: str) -> str:
    return f"`uv python install {minor}`" if uv_has(minor) else "conda"


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
