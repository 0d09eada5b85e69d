import errno
from collections.abc import Sequence
from pathlib import Path

from runyard.environments.catalogue import FREE_SPACE, diagnosed
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.plan import EnvironmentSpec
from runyard.planning.packages import normal, requirement_name
from runyard.planning.passwords import hidden

QUOTED_LINES = 40
QUOTED_CHARACTERS = 1000
FULL = (errno.ENOSPC, errno.EDQUOT)
PROBLEMS = {
    Cause.DISK_FULL: "The disk filled up while {doing}.",
    Cause.NETWORK: "A package index could not be reached while {doing}.",
    Cause.OFFLINE: "The workspace is offline, and not all that is needed is in the caches: {doing} failed.",
    Cause.WRONG_CREDENTIALS: "A package index refuses the credentials: {doing} failed.",
    Cause.CERTIFICATE: "The certificate of a package index is not trusted: {doing} failed.",
    Cause.KILLED: "The build was killed: {doing} failed.",
}


def failed(doing: str, lines: Sequence[str], spec: EnvironmentSpec, program: str = "uv") -> EnvironmentFailed:
    """The error for a program that failed: its cause, its output, and which of the user's packages it is about."""
    lines = [hidden(line) for line in lines]
    found = diagnosed(lines)
    package = normal(found.package)
    quoted = "\n".join(line[:QUOTED_CHARACTERS] for line in lines[-QUOTED_LINES:] if line.strip())
    problem = PROBLEMS.get(found.cause, "The environment could not be made: {doing} failed.").format(doing=doing)
    return EnvironmentFailed(
        f"{problem} {program} says:\n{quoted}",
        hint=found.hint or _hint(package, spec),
        cause=found.cause,
        said=found.said[:QUOTED_CHARACTERS],
        package=package,
        needs_python=found.needs_python,
    )


def not_written(root: Path, error: OSError) -> EnvironmentFailed:
    """The error for a file or folder below `root` that could not be written."""
    is_full = error.errno in FULL
    return EnvironmentFailed(
        f"The environment could not be written to {root}: {error.strerror or error}.",
        hint=FREE_SPACE if is_full else "Set RUNYARD_HOME to a folder that can be written, on a disk with room.",
        cause=Cause.DISK_FULL if is_full else Cause.UNKNOWN,
        said=str(error),
    )


def _hint(package: str, spec: EnvironmentSpec) -> str:
    asked = [line for line in _asked(spec) if requirement_name(line)]
    own_lines = [line for line in asked if package and requirement_name(line) == package]
    if own_lines:
        return f"Look at {own_lines[0]!r} in pip_packages, conda_packages or the requirements file, then submit again."
    if package:
        return f"'{package}' is needed by one of your packages ({', '.join(asked[:8])}); change their versions."
    return "Change pip_packages, conda_packages or the requirements file, then submit again."


def _asked(spec: EnvironmentSpec) -> list[str]:
    return [*spec.requirements, *(line for choice in spec.choices for line in choice)]
