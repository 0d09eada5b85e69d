from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runyard.model.data import NetworkRules, StoreAccess

FileRow = tuple[str, str, str, int | None, str, bool]
"""[path, store, key, size, etag, is_ranged]"""


@dataclass(frozen=True)
class DatasetWire:
    files: Sequence[FileRow]
    is_one_file: bool
    folder: tuple[str, str] | None
    """(datastore, path) where the dataset is that whole folder, or that one file."""
    changes: Sequence[str]
    """What is other than when its version was made."""


# Written by `data_to_json`; declared here for the OpenAPI.
@dataclass(frozen=True)
class DataWire:
    datasets: Mapping[str, DatasetWire]
    stores: Mapping[str, StoreAccess]
    network: NetworkRules
