"""A base with an interpreter of this machine in it, for images that lack the Python an environment wants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runyard.containers.containers import ContainerSpec
from runyard.containers.engine import Engine
from runyard.containers.images import ImageFacts
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
    """The name of its containers."""
    scratch: Path
    say: Say

    def on(self, base: ImageFacts, candidates: Sequence[Interpreter]) -> tuple[ImageFacts, str, Interpreter]:
        """The base with the first of the candidates that runs there, and its path in it. EnvironmentFailed where none
        does."""
        failures = []
        for interpreter in candidates:
            files = InterpreterFiles.of(interpreter)
            name = self.naming.python(f"{base.id} {files.identity}")
            found = self.engine.images.find(name)
            if found is not None:
                self.say(f"Python {interpreter} of this machine was put into this image before; that is taken.")
                return found, files.python, interpreter
            self.say(f"Putting Python {interpreter} of this machine ({interpreter.path}) into the image, as a layer.")
            made, said = self._made(base, files, name)
            if made is not None:
                return made, files.python, interpreter
            self.say(f"It does not run there: {said}")
            failures.append(said)
        raise EnvironmentFailed(
            f"Python {candidates[0]} of this machine does not run in the image, whose C library is another or older.",
            hint="Choose an image that has the Python you want, or a newer one of Debian, Ubuntu or the like; or have "
            f"{_by_uv(candidates[0].minor)} put one on this machine that runs nearly everywhere.",
            cause=Cause.NO_PYTHON,
            said=failures[-1],
        )

    def _made(self, base: ImageFacts, files: InterpreterFiles, name: str) -> tuple[ImageFacts | None, str]:
        """The image, or why the interpreter does not run in it. Its libraries are named to the image's loader where it
        would not find them by itself, and only there: they are newer or older than the image's own."""
        searched = ":".join(filter(None, (f"{files.prefix}/lib", base.variables.get(LIBRARIES))))
        with (self.scratch / "interpreter.tar").open("w+b") as archive:
            files.archive(archive)
            said = ""
            for variables in ({LIBRARIES: searched},) if files.needs_libraries else ({}, {LIBRARIES: searched}):
                archive.seek(0)
                made, said = self._proved(base, files, name, archive, variables)
                if made is not None:
                    return made, ""
        return None, said

    def _proved(
        self, base: ImageFacts, files: InterpreterFiles, name: str, archive: IO[bytes], variables: Mapping[str, str]
    ) -> tuple[ImageFacts | None, str]:
        """The image, where the interpreter starts in a container of it and has its modules."""
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
