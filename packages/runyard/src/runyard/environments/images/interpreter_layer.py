"""A base with an interpreter of this machine in it, for images that lack the Python an environment wants."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.containers.containers import ContainerSpec
from runyard.containers.engine import Engine
from runyard.containers.images import ImageFacts
from runyard.environments.images.interpreter_files import InterpreterFiles
from runyard.environments.images.naming import BASE, HOME, Naming
from runyard.environments.interpreters import Interpreter
from runyard.environments.programs import Say
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause

LOOKED_FOR_FIRST = "LD_LIBRARY_PATH"
QUOTED_LINES = 5


@dataclass(frozen=True)
class InterpreterLayer:
    engine: Engine
    naming: Naming
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
            f"`uv python install {candidates[0].minor}` put one on this machine that runs nearly everywhere.",
            cause=Cause.NO_PYTHON,
            said=failures[-1],
        )

    def _made(self, base: ImageFacts, files: InterpreterFiles, name: str) -> tuple[ImageFacts | None, str]:
        """The image, or why the interpreter does not run in it."""
        engine, labels = self.engine, {HOME: self.naming.home, BASE: base.id}
        container = engine.containers.create(ContainerSpec(base.id, command=(files.python,), labels=labels))
        try:
            with (self.scratch / "interpreter.tar").open("w+b") as archive:
                files.archive(archive)
                engine.containers.put_archive(container, "/", archive)
            message = f"Python {files.interpreter}"
            made = engine.images.commit(container, name, labels=labels, message=message)
            said = self._proved(made, files, {})
            if said:
                # Its libraries are not where the image looks for them.
                searched = ":".join(filter(None, (f"{files.prefix}/lib", base.variables.get(LOOKED_FOR_FIRST))))
                variables = {LOOKED_FOR_FIRST: searched}
                said = self._proved(made, files, variables)
                if not said:
                    change = f"ENV {LOOKED_FOR_FIRST}={searched}"
                    made = engine.images.commit(container, name, labels=labels, changes=(change,), message=message)
            if said:
                engine.images.remove(made.id)
                return None, said
            return made, ""
        finally:
            engine.containers.remove(container)

    def _proved(self, image: ImageFacts, files: InterpreterFiles, variables: dict[str, str]) -> str:
        """ "" where the interpreter starts and has its modules, else what it or the engine says."""
        heard: list[str] = []
        command = (files.python, "-I", "-c", f"import {', '.join(('sys', *files.modules))}")
        spec = ContainerSpec(image.id, command=command, variables=variables, working_folder="/", user="0:0")
        try:
            ended = self.engine.containers.run(spec, heard.append).exit
        except EnvironmentFailed as failure:
            if failure.facts.get("cause") is not Cause.ENGINE_FAILED:
                raise
            return str(failure.facts.get("said"))
        return " ".join([*heard[-QUOTED_LINES:], ended.error]).strip() or f"exit {ended.status}" if ended.status else ""
