"""A sweep: one run that tries many values of its script's arguments, each in its own child run."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from runyard.model.runs import RunId, RunStatus

VALUES_TAG = "hyperparameters"
"""Tag of a child run that holds the JSON of its values."""

Values = Mapping[str, Any]
"""Arguments of one trial by the user's names for them."""


class Goal(StrEnum):
    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclass(frozen=True)
class Stop:
    """Decision of a policy to stop a trial at one of its intervals."""

    policy: str
    interval: int
    value: float | None
    """Best value of the trial up to that interval; None if it logged no number."""
    held_against: float | None
    text: str
    """The decision as one sentence for users."""


@dataclass(frozen=True)
class Trial:
    """One set of values. It is stored before its child run is created, so each number and id is used once."""

    sweep_id: RunId
    number: int
    values: Values
    resumed_from: RunId | None = None
    stop: Stop | None = None

    @property
    def child_id(self) -> RunId:
        return RunId(f"{self.sweep_id}_{self.number}")


class RankedTrial(NamedTuple):
    """A trial with the result that users compare. A tuple, because one query returns ten thousand of them."""

    run_id: RunId
    number: int
    values: str
    """The JSON text of its values, as stored."""
    status: RunStatus
    """NotStarted if its run does not exist yet."""
    best: float | None
    """Best value of the primary metric; None if no number was logged."""
    intervals: int
    """How often the primary metric was logged."""
    stop: Stop | None = None
