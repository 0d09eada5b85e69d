"""service.json: the file by which clients of this home find its service."""

import json
import os
from pathlib import Path
from typing import Any

from runyard.core.durable_files import replace_file
from runyard_sdk.home import is_of_home

Facts = dict[str, Any]


def read_facts(home: Path) -> Facts | None:
    """Content of the file; None where it is missing or of another home, host or boot. The service may have died."""
    facts = _read(home / "service.json")
    if facts is None or facts.get("host") != host_name() or facts.get("boot") != boot_id():
        return None
    return facts if is_of_home(facts, str(home)) else None


def write_facts(home: Path, facts: Facts) -> None:
    replace_file(home / "service.json", json.dumps(facts, indent=1).encode())


def remove_facts(home: Path, pid: int) -> None:
    """Remove the file if that process wrote it: another service may have started meanwhile."""
    facts = read_facts(home)
    if facts is not None and facts.get("pid") == pid:
        (home / "service.json").unlink(missing_ok=True)


def write_start_error(home: Path, problem: str, hint: str) -> None:
    replace_file(home / "start-error.json", json.dumps({"problem": problem, "hint": hint}).encode())


def take_start_error(home: Path) -> tuple[str, str] | None:
    """(problem, hint) of the last failed start; removes the file."""
    path = home / "start-error.json"
    found = _read(path)
    path.unlink(missing_ok=True)
    return None if found is None else (str(found.get("problem", "")), str(found.get("hint", "")))


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
