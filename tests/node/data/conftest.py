import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.model.data import DataForAttempt, DatasetFiles, NetworkRules, SourceFile, StoreAccess
from runyard.model.plan import DataItem

FILES = {"mnist/train/a.gz": "first", "mnist/test/b.gz": "second", "notes.txt": "notes"}


@pytest.fixture
def datastore(tmp_path: Path) -> Path:
    """A folder with FILES, known to runs as the datastore 'blobs'."""
    root = tmp_path / "datastores" / "blobs"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB. Mounting needs root, which CI has; elsewhere the tests say that they did not run."""
    place = tmp_path / "small"
    place.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    made = subprocess.run(options, capture_output=True, text=True)
    if made.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"A small disk needs root: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture(autouse=True)
def nothing_stays_mounted(tmp_path: Path) -> Iterator[None]:
    yield
    assert mounted_anywhere(tmp_path) == []


def mounted_anywhere(root: Path) -> list[str]:
    """Lines on mounts below a folder in the mount table of any living process."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            lines = Path("/proc", name, "mountinfo").read_text().splitlines()
        except OSError:
            continue
        found.update(line for line in lines if f" {root}/" in line)
    return sorted(found)


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
