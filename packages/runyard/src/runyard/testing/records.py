"""Sample records for tests; a test states only the fields it is about."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from runyard.core.definitions.run import RunDefinition
from runyard.core.records.assets import Workspace
from runyard.core.records.files import FileEntry
from runyard.core.records.metrics import MetricBatch, MetricKind
from runyard.core.records.runs import RunId, RunRecord, RunStatus

AT = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def a_run(run_id: str = "r1", status: RunStatus = RunStatus.NOT_STARTED, **fields: Any) -> RunRecord:
    """`definition` is a mapping as clients send it."""
    given: dict[str, Any] = {"workspace": "vision", "experiment": "mnist", "number": 0, "created_at": AT} | fields
    definition = given.get("definition") or {}
    given["definition"] = definition if isinstance(definition, RunDefinition) else RunDefinition(definition)
    return RunRecord(id=RunId(run_id), status=status, **given)


def a_workspace(name: str = "vision") -> Workspace:
    return Workspace(name, f"id-of-{name}", "subscription", "group", "local", AT, tags={"team": "red"})


def a_file(path: str, content: bytes = b"content") -> FileEntry:
    return FileEntry(path, sha256(content).hexdigest(), len(content))


def scalars(name: str, *values: Any, step: int | None = None) -> MetricBatch:
    count = len(values)
    return MetricBatch(name, MetricKind.SCALAR, list(values), [step] * count, [float(i) for i in range(count)])
