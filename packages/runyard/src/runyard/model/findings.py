from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    LACKS = "missing"
    BROKEN = "broken"


@dataclass(frozen=True)
class Finding:
    """Result of checking one part of the machine. `remedy` says how to fix what is missing or broken."""

    part: str
    level: Level
    found: str
    remedy: str = ""
