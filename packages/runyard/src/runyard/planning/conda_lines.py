"""Conda packages as users list them: parsing of lines, and their names on the Python package index."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runyard.errors import InvalidArgument

CHANNEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
CHANNEL_ADDRESS = re.compile(r"(https?|file)://[A-Za-z0-9_.~:/@%+-]+")
PACKAGE = re.compile(
    r"(?:(?P<channel>[^\s=<>!~|,]+)::)?(?P<name>[A-Za-z0-9_][A-Za-z0-9._-]*+)(?P<version>[A-Za-z0-9._+*!=<>~|, -]*+)"
)
CLAUSE = re.compile(r"(==|!=|<=|>=|~=|=|<|>)?([A-Za-z0-9._+!-]*\*?)")
PINNED = re.compile(r"(={1,2})([^=,<>|~]+)(=[^=,<>|]*)?")


@dataclass(frozen=True)
class CondaLine:
    text: str
    """As the user wrote it, stripped."""
    name: str
    version: str
    """As pip writes it, such as "==1.2.*"; "" for any."""


def parse_conda_line(line: str) -> CondaLine:
    """Parse one line of conda_packages. Raises InvalidArgument if it names no package or has a bad version."""
    text = line.strip()
    found = PACKAGE.fullmatch(text)
    if not found:
        raise InvalidArgument(
            f"conda_packages holds {line!r}, which is not a package.",
            hint="Write a name with a version, like 'scikit-learn=0.20.3'; files, addresses and options are not taken.",
        )
    if found["channel"]:
        check_channel(found["channel"])
    try:
        return CondaLine(text, found["name"].lower(), conda_version(found["version"]))
    except ValueError:
        raise InvalidArgument(
            f"conda_packages holds {line!r}, whose version {found['version'].strip()!r} cannot be read.",
            hint="Write it like 'numpy=1.16', 'numpy==1.16.4' or 'numpy>=1.16,<1.18'.",
        ) from None


def conda_version(text: str) -> str:
    """Translate a conda version to pip's syntax: '=1.2' -> '==1.2.*', '=1.2=py36_0' -> '==1.2'; ranges stay, of
    alternatives the last is taken. Raises ValueError."""
    spec = re.sub(r"\s+", " ", text.strip())
    spec = re.sub(r"(?<=[A-Za-z0-9*]) (?=[A-Za-z0-9_]+$)", "=", spec).replace(" ", "")  # 'scipy 1.2.1 py36_0'
    if not spec or spec == "*":
        return ""
    if "|" in spec:
        return conda_version(spec.rpartition("|")[2])
    pinned = PINNED.fullmatch(spec if spec[0] in "<>=!~" else f"=={spec}")
    if pinned:
        version, has_build = pinned[2], bool(pinned[3])
        precise = pinned[1] == "==" or has_build or version.count(".") >= 2 or version.endswith("*")
        return _clause("==" + version if precise else f"=={version}.*")
    return ",".join(clause for part in spec.split(",") if (clause := _clause(part)))


def check_channel(channel: str) -> str:
    """The channel, if it is a name or a URL. Raises InvalidArgument."""
    if CHANNEL_ADDRESS.fullmatch(channel) or (CHANNEL_NAME.fullmatch(channel) and ".." not in channel):
        return channel
    raise InvalidArgument(
        f"The conda dependencies name the channel {channel!r}, which is neither a name nor an address.",
        hint="Write a name like 'conda-forge', or an address that starts with https:// or file://.",
    )


def check_channels(channels: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check_channel(channel.strip()) for channel in channels))


def _clause(text: str) -> str:
    found = CLAUSE.fullmatch(text)
    if not found or not found[2]:
        raise ValueError(text)
    operator, version = found[1] or "==", found[2]
    if version == "*":
        return ""
    if version.endswith("*"):
        version = version.rstrip(".*") + ("" if operator in ("<", ">", "<=", ">=") else ".*")
    return ("==" if operator == "=" else operator) + version
