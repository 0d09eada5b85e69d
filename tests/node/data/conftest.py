import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.records.data import DataForAttempt, DatasetFiles, NetworkRules, SourceFile, StoreAccess
from runyard.core.records.launch_plan import DataItem
from runyard.testing.small_disk import mounted
from tests.mount_tables import mounted_anywhere

FILES = {"mnist/train/a.gz": "first", "mnist/test/b.gz": "second", "notes.txt": "notes"}


@pytest.fixture
def datastore(tmp_path: Path) -> Path:
    return a_datastore(tmp_path / "datastores" / "blobs")


def a_datastore(root: Path) -> Path:
    """A folder with FILES, known to runs as the datastore 'blobs'."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small", 2) as place:
        yield place


@pytest.fixture(autouse=True)
def nothing_stays_mounted(tmp_path: Path) -> Iterator[None]:
    yield
    # A supervisor that has told its end takes its view of the mounts along a moment later.
    deadline = time.monotonic() + 5
    while (left := mounted_anywhere(tmp_path)) and time.monotonic() < deadline:
        pass
    assert left == []


def on_folder(datastore: Path, **datasets: DatasetFiles) -> DataForAttempt:
    return DataForAttempt(datasets, {"blobs": StoreAccess("folder", str(datastore))}, NetworkRules())


def whole_folder(datastore: Path, path: str) -> DatasetFiles:
    files = [
        SourceFile(
            str(file.relative_to(datastore / path)), "blobs", str(file.relative_to(datastore)), file.stat().st_size
        )
        for file in sorted((datastore / path).rglob("*"))
        if file.is_file()
    ]
    return DatasetFiles(files, is_one_file=False, folder=("blobs", path))


def one_file(datastore: Path, path: str) -> DatasetFiles:
    name = path.rpartition("/")[2]
    return DatasetFiles([SourceFile(name, "blobs", path, (datastore / path).stat().st_size)], True, ("blobs", path))


def dataset(name: str = "mnist", mode: str = "mount", **fields) -> DataItem:
    placeholder = f"DatasetConsumptionConfig:{name}"
    return DataItem(name, "dataset", mode, placeholder, dataset_id="1", variables=(name,), **fields)


def reference(mode: str, path: str = "", name: str = "ref", **fields) -> DataItem:
    return DataItem(
        name,
        "reference",
        mode,
        f"$AZUREML_DATAREFERENCE_{name}",
        datastore="blobs",
        path=path,
        variables=(name,),
        **fields,
    )


def output(mode: str, path: str = "out", name: str = "result", **fields) -> DataItem:
    return DataItem(
        name, "output", mode, f"DatasetOutputConfig:{name}", datastore="blobs", path=path, variables=(name,), **fields
    )


def run(submit, service, script: str, *items: DataItem, argument: str | None = None) -> dict:
    """Run a script on these, with the path of the first as its argument; returns the report of its end."""
    submit(script, items[0].placeholder if argument is None else argument, data=items)
    return service.ended()


def node_log(service) -> str:
    return service.logs.get("azureml-logs/65_job_prep.txt", b"").decode()
