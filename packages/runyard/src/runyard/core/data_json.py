"""JSON of the data of an attempt, as a node gets it. It holds credentials: never write it to a file."""

from runyard.core.errors import Json
from runyard.core.record_json import from_json, to_json
from runyard.core.records.data import DataForAttempt, SourceFile


def data_to_json(data: DataForAttempt) -> Json:
    return to_json(data, (SourceFile,))


def data_from_json(body: Json) -> DataForAttempt:
    """Parse the JSON. Unknown fields are ignored: the service may be newer than the node."""
    return from_json(DataForAttempt, body, "The data of the attempt")
