"""The layer of an image that holds an interpreter of this machine, for images without the right Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runyard.containers.creating import ContainerSpec
from runyard.containers.engine import Engine
from runyard.containers.records import ImageFacts
from runyard.environments.images.interpreter_files import InterpreterFiles
from runyard.environments.images.naming import BASE, HOME, Naming
from runyard.environments.interpreters import Interpreter, uv_has
from runyard.environments.programs import Say
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause

LIBRARIES = "LD_LIBRARY_PATH"


@dataclass(frozen=True)
class InterpreterLayer:
    engine: Engine
    naming: Naming
    container: str
    """Name for its containers."""
    scratch: Path
    log: Say

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
            cause=Cause.NO_PYTHON,
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
                if failure.facts.get("cause") is not Cause.ENGINE_FAILED:
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
