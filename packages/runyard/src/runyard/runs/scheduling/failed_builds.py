from collections.abc import Mapping
from typing import Any

from runyard.model.causes import Cause
from runyard.model.runs import RunRecord, RunStatus

MENDED_BY_ANOTHER_TRY = frozenset(
    {Cause.NETWORK, Cause.DISK_FULL, Cause.KILLED, Cause.ENGINE_FAILED, Cause.REGISTRY_FAILED, Cause.UNKNOWN}
    | {Cause.WRONG_CREDENTIALS, Cause.CONDA_FAILED}
)
"""Causes that may be gone at the next try: other runs with the same environment may succeed."""


def build_failure(run: RunRecord) -> Mapping[str, Any] | None:
    """Error of a run whose environment could not be built; None for all other runs."""
    error = (run.error or {}).get("error")
    if run.status is not RunStatus.FAILED or not isinstance(error, Mapping):
        return None
    return error if _cause_in(error) in set(Cause) else None


def lasting_failure(run: RunRecord) -> Mapping[str, Any] | None:
    """Error of a build that would fail for every other run too; None otherwise."""
    error = build_failure(run)
    return error if error is not None and _cause_in(error) not in MENDED_BY_ANOTHER_TRY else None


def _cause_in(error: Mapping[str, Any]) -> str:
    facts = error.get("messageParameters")
    return str(facts.get("cause")) if isinstance(facts, Mapping) else ""
