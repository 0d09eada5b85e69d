import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.environments.compiled import CompiledWheel
from runyard.environments.durable import synced
from runyard.environments.images.workshop import Workshop
from runyard.environments.interpreters import Interpreter
from runyard.environments.pip import Pip
from runyard.environments.programs import Say
from runyard.planning.source_builds import SourceBuild


@dataclass(frozen=True)
class Compiling:
    """Compiles packages in the build container, with the compilers of the image.

    `kept` caches the wheels for other environments on the same base image.
    """

    container: Workshop
    python: Path
    interpreter: Interpreter
    variables: Mapping[str, str]
    scratch: Path
    kept: Path
    held: int
    log: Say

    def wheel(self, build: SourceBuild, options: Sequence[str]) -> CompiledWheel:
        """The wheel, cached or built, in a folder below `scratch`, which the container can read."""
        folder = self.kept / self._key(build)
        found = next(iter(sorted(folder.glob("*.whl"))), None)
        scratch = self.scratch / f"compiling-{folder.name}"
        scratch.mkdir()
        if found is not None:
            self.log(f"{build.requirement} was built in this image before; its wheel is taken.")
            os.link(found, scratch / found.name)
            return CompiledWheel(folder.name, scratch / found.name)
        pip = Pip(self.python, self.variables, scratch, (self.held,), self.container.run)
        made = pip.build_wheel(build, options, self.log)
        synced(made)
        _keep(made, folder)
        return CompiledWheel(folder.name, made)

    def _key(self, build: SourceBuild) -> str:
        facts = [
            build.requirement,
            build.against,
            self.interpreter.minor,
            sorted(build.variables.items()),
            [vars(edit) for edit in build.edits],
            build.origin,
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]


def _keep(wheel: Path, folder: Path) -> None:
    """Add the wheel to the cache atomically: other builds may add the same, or be killed while they do."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{wheel.name}.{secrets.token_hex(8)}"
    os.link(wheel, temporary)
    os.replace(temporary, folder / wheel.name)
