"""`runyard data`: datasets, their lineage and their files."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from runyard.cli.connection import CreatorOption, Service, WorkspaceOption, connect, home, open_workspace, quoted
from runyard.cli.display import creator_of, local_time, size_in_words
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import (
    Format,
    FormatOption,
    print_fields,
    print_heading,
    print_json,
    print_json_line,
    print_table,
)
from runyard.core.data_json import data_from_json
from runyard.core.names import check_asset_name
from runyard.core.ports.data import DataStore, Progress
from runyard.core.records.assets import AssetKind
from runyard.core.records.data import DataForAttempt, DatasetFiles
from runyard.data.datastores.factory import open_store
from runyard.data.fuse import ReadOnlyMount, serve_mount
from runyard.data.transfers import BlockCache, cache_limit
from runyard.data.transfers import download as fetch

app = typer.Typer(no_args_is_help=True, help="Datasets: what they hold, who read them, their files.")

SHOWN_FILES = 20
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The dataset's name, or its id.")]
VersionOption = Annotated[int | None, typer.Option("--version", "-v", min=1, help="This version; else the newest.")]


@app.command("list")
def list_datasets(
    workspace: WorkspaceOption = None,
    name: Annotated[str | None, typer.Option(help="Every version of this dataset.")] = None,
    created_by: CreatorOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """List datasets; with --name all versions of one."""
    query: dict[str, Any] = {"name": name} if name else {"latest": 1}
    found = connect().listed(workspace, "assets/datasets", created_by=created_by, **query)
    if output is Format.JSON:
        print_json(found)
        return
    rows = [
        [d["name"], str(d["version"]), d["body"]["type"], *_pinned(d), local_time(d["created_at"]), creator_of(d)]
        for d in found
    ]
    print_table(["dataset", "version", "type", "files", "size", "created", "by"], rows, nothing="No datasets.")


@app.command()
def show(
    name: NameArgument,
    version: VersionOption = None,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show one dataset, its runs and their models.

    Its sources and files are shown as they are now, with a warning where they changed since the version was made.
    """
    service = connect()
    root, dataset = _find(service, name, version, workspace)
    lineage = service.get(f"{root}/datasets/by-id/{dataset['id']}/lineage")
    resolved = _resolved(service, root, dataset)
    if output is Format.JSON:
        print_json({**dataset, **resolved, "lineage": lineage})
        return
    files, size = _pinned(dataset)
    tags = ", ".join(f"{key}={value}" for key, value in dataset["tags"].items())
    fields = {"dataset": dataset["name"], "version": str(dataset["version"]), "id": dataset["id"]}
    described = {"type": dataset["body"]["type"], "description": dataset["body"].get("description") or "", "tags": tags}
    made = {"created": local_time(dataset["created_at"]), "created by": creator_of(dataset)}
    print_fields({**fields, **described, "files": files, "size": size, **made})
    for change in resolved["changes"]:
        print(f"warning: {change}")
    _print_sections(dataset, resolved["files"], lineage)


@app.command()
def download(
    name: NameArgument,
    version: VersionOption = None,
    workspace: WorkspaceOption = None,
    target: Annotated[Path, typer.Option("--target", "-t", file_okay=False, help="Folder to write into.")] = Path(),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Write a dataset's files below a folder.

    Files are downloaded in parallel; an interrupted download is resumed.

    Example: runyard data download mnist --target ./mnist
    """
    service = connect()
    root, dataset = _find(service, name, version, workspace)
    data = _access(service, root, dataset)
    wanted = _wanted(data)
    items = [(file, target.absolute() / file.path) for file in wanted.files]
    taken = [target_path for _, target_path in items if target_path.exists()]
    if taken and not overwrite:
        raise CommandError(f"{taken[0]} is already there.", hint="Pass --overwrite, or another --target.")
    cache = home() / "data-cache"
    with _bar(f"Downloading {name}", sum(file.size or 0 for file in wanted.files)) as progress:
        fetch(items, _stores(data), BlockCache(cache, cache_limit(cache)), progress)
    if output is Format.JSON:
        print_json([str(target_path) for _, target_path in items])
    else:
        print(f"{len(items)} file{'' if len(items) == 1 else 's'} below {target.absolute()}")


@app.command()
def upload(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", exists=True, help="Or one file.")],
    target: Annotated[
        str, typer.Argument(metavar="[DATASTORE:]PATH", help="Where to; the default datastore if unsaid.")
    ],
    register: Annotated[str | None, typer.Option(help="Register what was uploaded as a dataset of this name.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Send a folder or a file to a datastore.

    Example: runyard data upload ./images pets/images --register pets
    """
    from azureml.core import Dataset, Datastore

    if register is not None:
        check_asset_name(AssetKind.DATASET, register)
    store_name, _, path = target.rpartition(":")
    options = {"overwrite": overwrite, "show_progress": output is Format.TEXT}
    with open_workspace(workspace) as opened:
        store = Datastore.get(opened, store_name) if store_name else opened.get_default_datastore()
        if folder.is_dir():
            store.upload(str(folder), path, **options)
        else:
            store.upload_files([str(folder)], str(folder.absolute().parent), path, **options)
        answer = {"datastore": store.name, "path": path}
        if register is not None:
            made = Dataset.File.from_files((store, path)).register(opened, register, create_new_version=True)
            answer |= {"id": made.id, "name": made.name, "version": made.version}
    if output is Format.JSON:
        print_json(answer)
    elif register is not None:
        print(f"{answer['name']}, version {answer['version']}")


@app.command()
def mount(
    name: NameArgument,
    mount_point: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="An empty one; it is made where it is not there.")
    ],
    version: VersionOption = None,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Mount a dataset read-only, until Ctrl-C.

    Where standard input is no terminal, its end unmounts too. Files are fetched as they are read and kept in the home's
    data cache.
    """
    service = connect()
    root, dataset = _find(service, name, version, workspace)
    data = _access(service, root, dataset)
    folder = _empty_folder(mount_point)

    files = _wanted(data).files
    wanted = ReadOnlyMount(folder, files, dataset["name"] or "data")
    size = sum(file.size or 0 for file in files)
    life = sys.stdin.fileno() if not sys.stdin.isatty() else _never_ending()

    def print_ready() -> None:
        if output is Format.JSON:
            print_json_line({"mounted": str(folder), "size": size})
        else:
            print(f"{dataset['name'] or dataset['id']} is mounted at {folder}. Ctrl-C unmounts it.", flush=True)

    with _json_lines() if output is Format.JSON else _bar("Read for the first time", size) as progress:
        serve_mount(
            wanted, data.stores, data.network, home() / "data-cache", life=life, ready=print_ready, progress=progress
        )


def _find(service: Service, name: str, version: int | None, workspace: str | None) -> tuple[str, dict[str, Any]]:
    """The workspace's route and the dataset, found by name or else by id."""
    from runyard_sdk.errors import NotFound

    root = f"/workspaces/{quoted(service.workspace(workspace))}"
    query = {} if version is None else {"version": version}
    try:
        return root, service.get(f"{root}/assets/datasets/{quoted(name)}", **query)
    except NotFound:
        if version is not None:
            raise
        by_name_error = sys.exc_info()[1]
    try:
        return root, service.get(f"{root}/assets/datasets/by-id/{quoted(name)}")
    except NotFound:
        assert by_name_error is not None
        raise by_name_error from None


def _resolved(service: Service, root: str, dataset: dict[str, Any]) -> dict[str, Any]:
    """Files of the dataset as they are now. A source that is gone or does not answer is listed as a change, so that the
    rest can still be shown."""
    from runyard_sdk.errors import DataFailed, NotFound

    try:
        found: dict[str, Any] = service.post(
            f"{root}/datasets/resolve", {"id": dataset["id"], "variables": _variables()}
        )
    except (NotFound, DataFailed) as error:
        return {"files": [], "changes": [str(error)]}
    return found


def _access(service: Service, root: str, dataset: dict[str, Any]) -> DataForAttempt:
    """Access to the dataset's files; through the service where its folders may be on another machine."""
    query = {"apart": 1} if service.is_elsewhere else {}
    found = data_from_json(service.get(f"{root}/datasets/by-id/{dataset['id']}/access", **query))
    reached = {
        name: service.reached_from_here(access) for name, access in found.stores.items() if access.kind == "service"
    }
    return replace(found, stores={**found.stores, **reached})


def _wanted(data: DataForAttempt) -> DatasetFiles:
    (files,) = data.datasets.values()
    return files


def _stores(data: DataForAttempt) -> dict[str, DataStore]:
    return {name: open_store(access, data.network) for name, access in data.stores.items()}


def _variables() -> dict[str, str]:
    from runyard_sdk.submitter import network_variables

    variables: dict[str, str] = network_variables()
    return variables


def _pinned(dataset: dict[str, Any]) -> tuple[str, str]:
    pin = dataset["body"].get("pin") or {}
    size = pin.get("bytes")
    return (str(pin.get("files", "")), "" if size is None else size_in_words(size))


def _print_sections(dataset: dict[str, Any], files: list[dict[str, Any]], lineage: dict[str, Any]) -> None:
    print_heading("sources")
    for source in dataset["body"]["sources"]:
        print(source.get("url") or f"{source['datastore']}: {source['path'] or '/'}")
    print_heading("files")
    rows = [[file["path"], "" if file["size"] is None else size_in_words(file["size"])] for file in files[:SHOWN_FILES]]
    print_table(["file", "size"], rows, nothing="No files.")
    if len(files) > SHOWN_FILES:
        print(f"... and {len(files) - SHOWN_FILES} more; -o json lists all.")
    print_heading("runs")
    used = [[run["direction"], run["run_id"], run["mode"] or "", local_time(run["at"])] for run in lineage["runs"]]
    print_table(["direction", "run", "mode", "at"], used, nothing="No run has read or written it.")
    if lineage["models"]:
        print_heading("models of those runs")
        rows = [[model["name"], str(model["version"]), model["run_id"]] for model in lineage["models"]]
        print_table(["model", "version", "run"], rows, nothing="")


def _empty_folder(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is not a folder.", hint="Mount on an empty folder.", exit_code=Exit.USAGE)
    folder.mkdir(parents=True, exist_ok=True)
    if folder.is_mount():
        raise CommandError(
            f"Something is mounted on {folder} already.", hint="Take another folder.", exit_code=Exit.USAGE
        )
    if any(folder.iterdir()):
        raise CommandError(f"{folder} is not empty.", hint="Mount on an empty folder.", exit_code=Exit.USAGE)
    return folder.absolute()


def _never_ending() -> int:
    """Read end of a pipe that never closes: in a terminal only Ctrl-C ends a mount."""
    read_end, _ = os.pipe()
    return read_end


@contextmanager
def _json_lines() -> Iterator[Progress]:
    """Print bytes that were read for the first time as JSON lines, for a program that mounts through this one."""
    yield lambda size: print_json_line({"read": size}) if size else None


@contextmanager
def _bar(what: str, total: int) -> Iterator[Progress]:
    """Progress bar in a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=total or None)
        yield lambda size: shown.advance(task, size)
