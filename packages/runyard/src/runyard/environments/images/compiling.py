"""Packages that are compiled against the others of an environment, in the container with the image's compilers."""

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
    """Wheels are kept for the next environment on the same base, in `kept`."""

    workshop: Workshop
    python: Path
    interpreter: Interpreter
    variables: Mapping[str, str]
    scratch: Path
    kept: Path
    held: int
    say: Say

    def wheel(self, build: SourceBuild, options: Sequence[str]) -> CompiledWheel:
        """In `scratch`, which the container sees."""
        place = self.kept / self._key(build)
        found = next(iter(sorted(place.glob("*.whl"))), None)
        scratch = self.scratch / f"compiling-{place.name}"
        scratch.mkdir()
        if found is not None:
            self.say(f"{build.requirement} was built in this image before; its wheel is taken.")
            os.link(found, scratch / found.name)
            return CompiledWheel(place.name, scratch / found.name)
        pip = Pip(self.python, self.variables, scratch, (self.held,), self.workshop.run)
        made = pip.build_wheel(build, options, self.say)
        synced(made)
        _keep(made, place)
        return CompiledWheel(place.name, made)

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


def _keep(wheel: Path, place: Path) -> None:
    """Whole or not at all, whoever else keeps the same or was killed while they did."""
    place.mkdir(parents=True, exist_ok=True)
    beside = place / f".{wheel.name}.{secrets.token_hex(8)}"
    os.link(wheel, beside)
    os.replace(beside, place / wheel.name)
