"""The body of a sweep's submission, one part of it as a test wants it."""

from typing import Any

from runyard.core.records.sweeps import SweepSpec
from runyard.runs.kinds.sweep.spec import checked_sweep

SPACE: dict[str, Any] = {"--lr": ["loguniform", [-6, -1]], "--batch": ["choice", [[16, 32, 64]]]}
PLAIN_SPACE: dict[str, Any] = {"--lr": ["uniform", [0, 1]]}


def a_sweep(**changed: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "sampling": {"name": "RANDOM", "parameter_space": SPACE, "properties": {"seed": 7}},
        "policy": {"name": "Default", "properties": {}},
        "primary_metric": {"name": "accuracy", "goal": "maximize"},
        "max_total_runs": 20,
        "max_concurrent_runs": 4,
        "max_duration_minutes": 60,
    }
    return {**asked, **changed}


def a_sampling(name: str, space: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {"name": name, "parameter_space": space, "properties": properties}


def a_spec(**changed: Any) -> SweepSpec:
    return checked_sweep(a_sweep(**changed))
