from collections.abc import Sequence

from runyard.environments.interpreters import Interpreter, choose
from runyard.model.plan import EnvironmentSpec

STANDALONE = "/uv/python/"


def of_the_image(spec: EnvironmentSpec, found: Sequence[Interpreter]) -> tuple[Interpreter, str] | None:
    """Choose an interpreter of the image for the spec; returns it with a line for the log, or None if none fits."""
    fitting = [interpreter for interpreter in found if _fits(spec, interpreter)]
    if not fitting:
        return None
    return choose(spec, fitting) if spec.python else (fitting[0], "")


def of_the_machine(
    spec: EnvironmentSpec, chosen: Interpreter, in_image: Sequence[Interpreter], here: Sequence[Interpreter]
) -> tuple[list[Interpreter], Interpreter | None, str]:
    """Choose an interpreter of this machine to copy into the image.

    `chosen` is the best of this machine. Returns candidates, best first; or no candidates and an interpreter of the
    image, if neither has the right version and that one is nearer.
    """
    if not _fits(spec, chosen) and in_image:
        nearest, note = choose(spec, [*in_image, chosen])
        if nearest in in_image:
            return [], nearest, note
    same_minor = [interpreter for interpreter in here if interpreter.minor == chosen.minor]
    # Standalone builds downloaded by uv run on nearly any Linux.
    return (
        sorted({chosen, *same_minor}, key=lambda one: (STANDALONE not in one.path, one != chosen, one.path)),
        None,
        "",
    )


def _fits(spec: EnvironmentSpec, interpreter: Interpreter) -> bool:
    if not spec.python:
        return True
    wanted = [".".join(version.split(".")[:2]) for version in spec.python.split(",")]
    return any(interpreter.minor == version or interpreter.minor.partition(".")[0] == version for version in wanted)
