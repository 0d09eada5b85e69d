from dataclasses import dataclass
from enum import StrEnum


class HealthLevel(StrEnum):
    OK = "ok"
    LACKS = "missing"
    BROKEN = "broken"


@dataclass(frozen=True)
class HealthFinding:
    """Result of checking one part of the machine. `remedy` says how to fix what is missing or broken."""

    part: str
    level: HealthLevel
    found: str
    remedy: str = ""
