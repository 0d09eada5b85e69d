"""A sweep: one run that tries many values of its script's arguments, each in a child run of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from runyard.model.runs import RunId, RunStatus

VALUES_TAG = "hyperparameters"
"""The tag of a child that holds the JSON of its values."""

Values = Mapping[str, Any]
"""What one trial's arguments are, by the names that the user gave them."""


class Goal(StrEnum):
    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclass(frozen=True)
class Stop:
    """Why a policy has a trial stopped, at which of its intervals."""

    policy: str
    interval: int
    value: float | None
    """The best of the trial up to that interval; None where it never logged a number."""
    held_against: float | None
    text: str
    """The whole decision as one sentence."""


@dataclass(frozen=True)
class Trial:
    """One set of values. It is stored before its child run is made, so the number, and the id, is used once."""

    sweep_id: RunId
    number: int
    values: Values
    resumed_from: RunId | None = None
    stop: Stop | None = None

    @property
    def child_id(self) -> RunId:
        return RunId(f"{self.sweep_id}_{self.number}")


class RankedTrial(NamedTuple):
    """A trial as its users compare it. A tuple, since one question gives ten thousand of them."""

    run_id: RunId
    number: int
    values: str
    """The JSON text of its values, as stored."""
    status: RunStatus
    """NotStarted where its run is not made yet."""
    best: float | None
    """The best of the primary metric; None where no number was logged."""
    intervals: int
    """How often the primary metric was logged."""
    stop: Stop | None = None
