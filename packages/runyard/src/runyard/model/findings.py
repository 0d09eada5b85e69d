from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    LACKS = "missing"
    BROKEN = "broken"


@dataclass(frozen=True)
class Finding:
    """One part of the machine. `remedy` says what to do about a part that is missing or broken."""

    part: str
    level: Level
    found: str
    remedy: str = ""
