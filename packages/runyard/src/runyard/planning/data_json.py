"""The data of an attempt as JSON and back: how it reaches its node. It holds credentials: never write it to a file."""

from runyard.core.record_json import from_json, to_json
from runyard.errors import Json
from runyard.model.data import DataForAttempt, SourceFile


def data_to_json(data: DataForAttempt) -> Json:
    return to_json(data, (SourceFile,))


def data_from_json(body: Json) -> DataForAttempt:
    """Fields that this version does not know are ignored: the service may be newer than the node."""
    return from_json(DataForAttempt, body, "The data of the attempt")
