from collections.abc import Mapping
from typing import Any

from runyard.model.causes import Cause
from runyard.model.runs import RunRecord, RunStatus

MENDED_BY_ANOTHER_TRY = frozenset(
    {Cause.NETWORK, Cause.DISK_FULL, Cause.KILLED, Cause.ENGINE_FAILED, Cause.REGISTRY_FAILED, Cause.UNKNOWN}
    | {Cause.WRONG_CREDENTIALS, Cause.CONDA_FAILED}
)
"""Causes that may be gone the next time: with them one run's failure says nothing of the others."""
_LASTING = frozenset(Cause) - MENDED_BY_ANOTHER_TRY


def lasting_failure(run: RunRecord) -> Mapping[str, Any] | None:
    """The error of a run whose environment can be made by no other run either; None for all other runs."""
    error = (run.error or {}).get("error")
    if run.status is not RunStatus.FAILED or not isinstance(error, Mapping):
        return None
    facts = error.get("messageParameters")
    return error if isinstance(facts, Mapping) and str(facts.get("cause")) in _LASTING else None
