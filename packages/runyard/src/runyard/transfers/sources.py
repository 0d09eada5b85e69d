from collections.abc import Mapping

from runyard.errors import InvalidArgument, SourceChanged
from runyard.model.data import SourceFile, StoredFile
from runyard.ports.data import DataStore


def store_of(stores: Mapping[str, DataStore], file: SourceFile) -> DataStore:
    """Store that the file is on. Raises InvalidArgument if it is not among `stores`."""
    try:
        return stores[file.store]
    except KeyError:
        problem = f"{file.path!r} lies on the datastore {file.store!r}, which is not known here."
        raise InvalidArgument(problem) from None


def check_same(file: SourceFile, got: StoredFile) -> None:
    """Raise SourceChanged if a fetched file is not the listed version."""
    if file.size is not None and got.size != file.size:
        raise SourceChanged(f"{file.path!r} has {got.size} bytes by now; it had {file.size} when it was listed.")
    if file.etag and got.etag and got.etag != file.etag:
        raise SourceChanged(f"{file.path!r} is another by now than when it was listed.")
