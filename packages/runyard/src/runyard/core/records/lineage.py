"""Datasets that runs read and wrote."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from runyard.core.records.runs import RunId


class Direction(StrEnum):
    INPUT = "input"
    OUTPUT = "output"


REFERENCE = "Reference"
"""Mode of a dataset that the script looked up by itself."""


@dataclass(frozen=True)
class DatasetUse:
    """One version of a dataset as an input or output of a run, with the names of that time."""

    run_id: RunId
    direction: Direction
    name: str
    """Name of the input or output; "" if the script looked the dataset up."""
    dataset_id: str
    dataset_name: str
    """Empty for a dataset that was saved without a name."""
    dataset_version: int
    mode: str
    at: datetime
