"""The data of an attempt as JSON and back: how it reaches its node. It holds credentials: never write it to a file."""

from dataclasses import asdict
from typing import Any

from runyard.errors import Json
from runyard.model.data import DataForAttempt, DatasetFiles, NetworkRules, SourceFile, StoreAccess


def data_to_json(data: DataForAttempt) -> Json:
    return {
        "datasets": {name: _dataset_to_json(found) for name, found in data.datasets.items()},
        "stores": {name: asdict(access) for name, access in data.stores.items()},
        "network": asdict(data.network),
    }


def data_from_json(body: Json) -> DataForAttempt:
    """Fields that this version does not know are ignored: the service may be newer than the node."""
    return DataForAttempt(
        datasets={name: _dataset_from_json(found) for name, found in body["datasets"].items()},
        stores={name: StoreAccess(**_known(StoreAccess, access)) for name, access in body["stores"].items()},
        network=NetworkRules(**_known(NetworkRules, body["network"])),
    )


def _dataset_to_json(found: DatasetFiles) -> Json:
    return {
        "files": [[f.path, f.store, f.key, f.size, f.etag, f.is_ranged] for f in found.files],
        "is_one_file": found.is_one_file,
        "folder": found.folder,
        "changes": list(found.changes),
    }


def _dataset_from_json(body: Json) -> DatasetFiles:
    folder = body.get("folder")
    return DatasetFiles(
        files=[SourceFile(*row[:6]) for row in body["files"]],
        is_one_file=body["is_one_file"],
        folder=(folder[0], folder[1]) if folder else None,
        changes=tuple(body.get("changes", ())),
    )


def _known(record: type[Any], body: Json) -> Json:
    return {name: value for name, value in body.items() if name in record.__dataclass_fields__}
