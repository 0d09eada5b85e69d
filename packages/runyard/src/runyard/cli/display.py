"""Sizes, times, values and errors as text."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any


def size_in_words(size_bytes: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if abs(size_bytes) < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def seconds_in_words(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def duration_of(run: Mapping[str, Any]) -> str:
    """Time from start to end, or to now while it runs; empty for a run that has not started."""
    begun = parse_time(run.get("started_at"))
    if begun is None:
        return ""
    end = parse_time(run.get("ended_at")) or datetime.now(UTC)
    return seconds_in_words(max(0.0, (end - begun).total_seconds()))


def creator_of(asset: Mapping[str, Any]) -> str:
    """ "owner", "run:ID" or "service"; empty where a service does not tell."""
    return str(asset.get("created_by") or "")


def parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def local_time(text: str | None) -> str:
    at = parse_time(text)
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else ""


def error_in_words(run: Mapping[str, Any]) -> str:
    error = (run.get("error") or {}).get("error") or {}
    return str(error.get("message") or error.get("code") or "")


def cause_of(run: Mapping[str, Any]) -> str:
    """Code of the reason why its environment could not be built; docs/environments.md lists them."""
    parameters = ((run.get("error") or {}).get("error") or {}).get("messageParameters")
    return str(parameters.get("cause") or "") if isinstance(parameters, Mapping) else ""


def value_in_words(value: Any) -> str:
    """Last value of a metric; for a row or a table its last row."""
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{name}={value_in_words(cell)}" for name, cell in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def names_in_words(names: Iterable[str], most: int = 20) -> str:
    """Quoted and sorted names; beyond `most` only their number."""
    known = sorted(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(map(repr, known[:most])) + more if known else "none"


def exit_in_words(ended: Mapping[str, Any]) -> str:
    """Exit code or signal of a process or node; empty while it runs."""
    if ended.get("oom"):
        return "out of memory"
    if ended.get("signal"):
        return f"signal {ended['signal']}"
    return "" if ended.get("exit_code") is None else str(ended["exit_code"])


def lineage_in_words(found: Mapping[str, Any]) -> str:
    """Origin of a model: run, code and data; "files" for one that was registered from files."""
    run = found.get("run") or {}
    if not run:
        return "files"
    data = ", ".join(f"{one['name'] or one['dataset_id']}:{one['version']}" for one in found.get("datasets") or ())
    code = f"snapshot {run['snapshot_id']}" if run.get("snapshot_id") else ""
    return ", ".join(filter(None, [f"run {run['id']}", code, f"data {data}" if data else ""]))
