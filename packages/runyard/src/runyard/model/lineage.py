"""Which data a run read and wrote."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from runyard.model.runs import RunId


class Direction(StrEnum):
    INPUT = "input"
    OUTPUT = "output"


REFERENCE = "Reference"
"""The mode of a dataset that a script looked up by itself."""


@dataclass(frozen=True)
class DatasetUse:
    """One version of a dataset as an input or output of a run, named as it was then."""

    run_id: RunId
    direction: Direction
    name: str
    """Of the input or output; "" for one that the script looked up."""
    dataset_id: str
    dataset_name: str
    """"" for one that was only saved."""
    dataset_version: int
    mode: str
    at: datetime
