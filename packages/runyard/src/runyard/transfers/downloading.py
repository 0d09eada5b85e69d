from collections.abc import Mapping, Sequence
from pathlib import Path

from runyard.model.data import SourceFile
from runyard.ports.data import DataStore, Progress
from runyard.transfers.block_cache import BlockCache


def download(
    items: Sequence[tuple[SourceFile, Path]],
    stores: Mapping[str, DataStore],
    cache: BlockCache,
    progress: Progress,
    *,
    threads: int = 16,
) -> None:
    raise NotImplementedError
