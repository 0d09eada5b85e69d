"""Uploads what a script has written to its datastores, and reports finished outputs to the service."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from runyard.client import quoted, retry_while_unavailable
from runyard.core.errors import Json
from runyard.core.ports.data import DataStore
from runyard.core.records.launch_plan import DataItem, LaunchPlan
from runyard.data.transfers import upload
from runyard.node.confined_files import is_file_beneath
from runyard.node.data.staged_data import PendingUpload, StagedData, stat_signature
from runyard.node.data.staging_context import item_errors, item_label
from runyard.node.data.store_access import ANSWER_SECONDS, LazyStores, TransferProgress, list_item_files, request_data
from runyard.node.processes.forked_task import Notify
from runyard.node.service_client import connect_to_service
from runyard.node.task_folder import TaskFolder

_NAMED_IN_WARNING = 5


def finish_uploads(
    folder: TaskFolder, plan: LaunchPlan, staged: StagedData, notify: Notify, *, ended_well: bool
) -> Json:
    """Upload what the script has written, and report complete outputs to the service. Safe to repeat.

    Returns warnings, and for a run on several nodes the number of files by output: those outputs are complete when
    every node has ended. Raises RunyardError with the item that failed.
    """
    client = connect_to_service(folder.home, plan.token, silence_seconds=ANSWER_SECONDS)
    data = request_data(client, folder.home, plan.attempt_id, stores_only=True, shares_files=plan.shares_files)
    with folder.node_log.open("a", encoding="utf-8", buffering=1) as log:
        fence = folder.scripts if plan.environment.image is not None else None
        warnings = _upload_all(plan, staged, LazyStores(data), partial(print, file=log), notify, fence)
    sizes = _sizes_of_outputs(plan.data, LazyStores(data))
    if len(plan.nodes) > 1:
        return {"warnings": warnings, "outputs": {item.name: len(found) for item, found in sizes}}
    for item, found in sizes:
        body = {"name": item.name, "files": len(found), "bytes": sum(found), "registers": ended_well}
        with item_errors(item):
            retry_while_unavailable(partial(client.post, f"/attempts/{quoted(plan.attempt_id)}/outputs", body))
    return {"warnings": warnings, "outputs": {}}


def _upload_all(
    plan: LaunchPlan,
    staged: StagedData,
    stores: LazyStores,
    log_line: Callable[[str], None],
    notify: Notify,
    fence: Path | None,
) -> list[str]:
    """Upload all items. `fence`: the folder that the script could see, if it ran in a container; links out of it are
    skipped."""
    pending = [(item, staged.uploads[item.name]) for item in plan.data if item.name in staged.uploads]
    found = [(item, wanted, _within_fence(_files(wanted, item.globs), fence)) for item, wanted in pending]
    total = sum(file.stat().st_size for _, _, files in found for file, _ in files)
    progress = TransferProgress("Uploading data", total, lambda text: notify({"message": text}), log_line)
    warnings: list[str] = []
    for item, wanted, files in found:
        if not files and wanted.seen is None and item.kind == "reference":
            # On several nodes often only the first one writes.
            nothing = f"{item_label(item)}: nothing was written at {wanted.path}, so nothing was uploaded."
            warnings += [nothing] if len(plan.nodes) == 1 else []
            continue
        with item_errors(item):
            warnings += _upload(item, wanted, files, stores[item.datastore], progress)
            log_line(f"{item.name}: {len(files)} files to datastore {item.datastore!r}.")
    return warnings


def _sizes_of_outputs(items: Sequence[DataItem], stores: LazyStores) -> list[tuple[DataItem, list[int]]]:
    found = []
    for item in items:
        if item.kind == "output":
            with item_errors(item):
                found.append((item, [file.size or 0 for file in list_item_files(item, stores)]))
    return found


def _upload(
    item: DataItem,
    wanted: PendingUpload,
    files: Sequence[tuple[Path, str]],
    store: DataStore,
    progress: TransferProgress,
) -> list[str]:
    there = set() if wanted.overwrite else {found.path for found in store.list(wanted.prefix)}
    taken = [target for _, target in files if target in there]
    non_utf8 = [target for _, target in files if not _is_text(target)]
    left = {*taken, *non_utf8}
    upload([pair for pair in files if pair[1] not in left], store, overwrite=wanted.overwrite, progress=progress)
    warnings = []
    if taken:
        warnings.append(
            f"{item_label(item)}: datastore {item.datastore!r} has these already, which are left as they were since "
            f"overwrite is not set: {_list_names(taken)}."
        )
    if non_utf8:
        warnings.append(f"{item_label(item)}: not uploaded, since their names are not UTF-8: {_list_names(non_utf8)}.")
    return warnings


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_IN_WARNING} more" if len(names) > _NAMED_IN_WARNING else ""
    return ", ".join(ascii(name) if not _is_text(name) else name for name in names[:_NAMED_IN_WARNING]) + more


def _files(wanted: PendingUpload, globs: Sequence[str]) -> list[tuple[Path, str]]:
    """Files to upload, each with its path on the datastore."""
    root = Path(wanted.path)
    if root.is_file():
        is_its_name = Path(wanted.prefix).suffix == root.suffix != ""
        return [(root, wanted.prefix if is_its_name else _joined(wanted.prefix, root.name))]
    found = _below(root) if not globs else {file for glob in globs for at in root.glob(glob) for file in _below(at)}
    files = []
    for file in sorted(found):
        path = file.relative_to(root).as_posix()
        if wanted.seen is None or wanted.seen.get(path) != stat_signature(file):
            files.append((file, _joined(wanted.prefix, path)))
    return files


def _within_fence(files: list[tuple[Path, str]], fence: Path | None) -> list[tuple[Path, str]]:
    return [pair for pair in files if fence is None or is_file_beneath(pair[0], fence)]


def _below(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
    for folder, _, names in os.walk(root):
        yield from (file for name in names if (file := Path(folder, name)).is_file())


def _joined(prefix: str, path: str) -> str:
    return f"{prefix}/{path}" if prefix else path
