"""Which interpreter an environment in an image stands on: one of the image, or one of this machine put into it."""

from collections.abc import Sequence

from runyard.environments.interpreters import Interpreter, choose
from runyard.model.plan import EnvironmentSpec

STANDALONE = "/uv/python/"


def of_the_image(spec: EnvironmentSpec, found: Sequence[Interpreter]) -> tuple[Interpreter, str] | None:
    """The interpreter of an image that is as wished, and a line for the log ('' where it is just that)."""
    fitting = [interpreter for interpreter in found if _fits(spec, interpreter)]
    if not fitting:
        return None
    return choose(spec, fitting) if spec.python else (fitting[0], "")


def of_the_machine(
    spec: EnvironmentSpec, chosen: Interpreter, in_image: Sequence[Interpreter], here: Sequence[Interpreter]
) -> tuple[list[Interpreter], Interpreter | None, str]:
    """`chosen` was found for the wish on this machine. Candidates to be put into the image, best first; or where the
    machine has not the wished one either, the image's own that is nearer."""
    if not _fits(spec, chosen) and in_image:
        nearest, note = choose(spec, [*in_image, chosen])
        if nearest in in_image:
            return [], nearest, note
    alike = [interpreter for interpreter in here if interpreter.minor == chosen.minor]
    # Those that uv brings are made to run on nearly any Linux.
    return sorted({chosen, *alike}, key=lambda one: (STANDALONE not in one.path, one != chosen, one.path)), None, ""


def _fits(spec: EnvironmentSpec, interpreter: Interpreter) -> bool:
    if not spec.python:
        return True
    wished = [".".join(version.split(".")[:2]) for version in spec.python.split(",")]
    return any(interpreter.minor == version or interpreter.minor.partition(".")[0] == version for version in wished)
