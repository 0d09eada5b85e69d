"""service.json: the file by which clients of this home find its service."""

import json
import os
from pathlib import Path
from typing import Any

from runyard_sdk.home import is_of_home

Facts = dict[str, Any]


def read_facts(home: Path) -> Facts | None:
    """Content of the file; None where it is missing or of another home, host or boot. The service may have died."""
    facts = _read(home / "service.json")
    if facts is None or facts.get("host") != host_name() or facts.get("boot") != boot_id():
        return None
    return facts if is_of_home(facts, str(home)) else None


def write_facts(home: Path, facts: Facts) -> None:
    write_private(home / "service.json", json.dumps(facts, indent=1))


def remove_facts(home: Path, pid: int) -> None:
    """Remove the file if that process wrote it: another service may have started meanwhile."""
    facts = read_facts(home)
    if facts is not None and facts.get("pid") == pid:
        (home / "service.json").unlink(missing_ok=True)


def write_start_error(home: Path, problem: str, hint: str) -> None:
    write_private(home / "start-error.json", json.dumps({"problem": problem, "hint": hint}))


def take_start_error(home: Path) -> tuple[str, str] | None:
    """(problem, hint) of the last failed start; removes the file."""
    path = home / "start-error.json"
    found = _read(path)
    path.unlink(missing_ok=True)
    return None if found is None else (str(found.get("problem", "")), str(found.get("hint", "")))


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically, readable by its owner only."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
        new.write(text)
    beside.replace(path)


def host_name() -> str:
    return os.uname().nodename


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _read(path: Path) -> Facts | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
