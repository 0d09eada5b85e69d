import re

from runyard.errors import EnvironmentFailed
from runyard.model.plan import EnvironmentSpec
from runyard.planning.packages import normal, requirement_name

OTHER_PYTHON = (
    re.compile(
        r"current Python version \((?P<here>[0-9.]+)\) does not satisfy Python(?P<needed>[<>=!~0-9.,]+) "
        r"and (?P<package>[A-Za-z0-9._-]+)"
    ),
    re.compile(r"Because (?P<package>[A-Za-z0-9._-]+)==[^ ]+ requires Python (?P<needed>[<>=!~0-9.,]+)"),
)
BLAMED = (
    re.compile(r"Because ([A-Za-z0-9._-]+)(?:\[[^\]]*\])?(?:[=<>!~][^ ]*)? was not found"),
    re.compile(r"Because there (?:is|are) no versions? of ([A-Za-z0-9._-]+)"),
    re.compile(r"Because only (?:the following versions of )?([A-Za-z0-9._-]+)"),
    re.compile(r"Failed to (?:build|download|fetch)[^`]*`([A-Za-z0-9._-]+)"),
    re.compile(r"Because (?!the\b|there\b|only\b|you\b|we\b)([A-Za-z0-9._-]+)"),
)
UNREACHED = "error sending request for url"
QUOTED_LINES = 40


def failed(doing: str, words: list[str], spec: EnvironmentSpec) -> EnvironmentFailed:
    """What uv said, and which of the user's packages it is about."""
    said = "\n".join(line for line in words[-QUOTED_LINES:] if line.strip())
    full = disk_filled(doing, said, said)
    if full:
        return full
    if UNREACHED in said:
        return EnvironmentFailed(
            f"A package index could not be reached while {doing}. uv says:\n{said}",
            hint="Look at the network, and at the proxy and index settings (https_proxy, PIP_INDEX_URL) of the shell "
            "or notebook that submits; then submit again.",
        )
    other_python = _other_python(said)
    blamed = normal(other_python["package"]) if other_python else _blamed(said)
    asked = [line for line in _asked(spec) if requirement_name(line) == blamed]
    if other_python:
        here = f", and this environment has {other_python['here']}" if "here" in other_python else ""
        hint = f"'{blamed}' needs Python {other_python['needed']}{here}: ask for another python or {blamed}."
    elif asked:
        hint = f"Look at {asked[0]!r} in pip_packages, conda_packages or the requirements file, then submit again."
    elif blamed:
        hint = f"'{blamed}' is needed by one of your packages ({', '.join(_asked(spec)[:8])}); change their versions."
    else:
        hint = "Change pip_packages, conda_packages or the requirements file, then submit again."
    return EnvironmentFailed(
        f"The environment could not be made: {doing} failed. uv says:\n{said}",
        hint=hint,
        package=blamed,
        needs_python=other_python.get("needed", ""),
    )


def disk_filled(doing: str, words: str, quoted: str) -> EnvironmentFailed | None:
    """The error for that, where a program's words tell of it."""
    if "No space left on device" not in words and "os error 28" not in words:
        return None
    return EnvironmentFailed(
        f"The disk filled up while {doing}: {quoted}",
        hint="Free space, for example with `runyard environments prune` and `runyard gc`, and submit again.",
    )


def _other_python(said: str) -> dict[str, str]:
    joined = " ".join(said.split())
    found = (pattern.search(joined) for pattern in OTHER_PYTHON)
    return next((match.groupdict() for match in found if match), {})


def _blamed(said: str) -> str:
    joined = " ".join(said.split())
    for pattern in BLAMED:
        found = pattern.search(joined)
        if found:
            return normal(found.group(1))
    return ""


def _asked(spec: EnvironmentSpec) -> list[str]:
    return [
        line
        for line in (*spec.requirements, *(line for choice in spec.choices for line in choice))
        if requirement_name(line)
    ]
