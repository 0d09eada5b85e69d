"""What a script has written goes to its datastores, and the service hears of finished outputs."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from runyard.client import patiently, quoted
from runyard.errors import Json
from runyard.model.plan import DataItem, LaunchPlan
from runyard.node.attempt import AttemptFolder
from runyard.node.beneath import is_file_beneath
from runyard.node.data.asking import ANSWER_SECONDS, ask_for_data
from runyard.node.data.brought import Brought, Upload
from runyard.node.data.fetching import OpenStores, files_at
from runyard.node.data.marks import mark_of
from runyard.node.data.place import named, naming
from runyard.node.data.progress import TransferProgress
from runyard.node.errand import Tell
from runyard.node.service import connect
from runyard.ports.data import DataStore
from runyard.transfers import upload

_NAMED_IN_WARNING = 5


def finish_uploads(folder: AttemptFolder, plan: LaunchPlan, brought: Brought, tell: Tell, *, ended_well: bool) -> Json:
    """Upload what the script has left to be uploaded, and tell the service which outputs are whole. Gives warnings,
    and how many files each output of a run on several nodes has: those are whole once every node has ended.

    Safe to repeat. Raises RunyardError naming the item that could not be stored.
    """
    client = connect(folder.home, plan.token, silence_seconds=ANSWER_SECONDS)
    data = ask_for_data(client, folder.home, plan.attempt_id, stores_only=True, shares_files=plan.shares_files)
    with folder.node_log.open("a", encoding="utf-8", buffering=1) as log:
        fence = folder.scripts if plan.environment.image is not None else None
        warnings = _upload_all(plan, brought, OpenStores(data), partial(print, file=log), tell, fence)
    sizes = _sizes_of_outputs(plan.data, OpenStores(data))
    if len(plan.nodes) > 1:
        return {"warnings": warnings, "outputs": {item.name: len(found) for item, found in sizes}}
    for item, found in sizes:
        body = {"name": item.name, "files": len(found), "bytes": sum(found), "registers": ended_well}
        with naming(item):
            patiently(partial(client.post, f"/attempts/{quoted(plan.attempt_id)}/outputs", body))
    return {"warnings": warnings, "outputs": {}}


def _upload_all(
    plan: LaunchPlan,
    brought: Brought,
    stores: OpenStores,
    say: Callable[[str], None],
    tell: Tell,
    fence: Path | None,
) -> list[str]:
    """`fence` is all that the script could see of this machine, where that was not the whole: links of it that lead
    elsewhere lead to nothing."""
    wishes = [(item, brought.uploads[item.name]) for item in plan.data if item.name in brought.uploads]
    found = [(item, wish, _fenced(_files(wish, item.globs), fence)) for item, wish in wishes]
    total = sum(file.stat().st_size for _, _, files in found for file, _ in files)
    progress = TransferProgress("Uploading data", total, lambda text: tell({"message": text}), say)
    warnings: list[str] = []
    for item, wish, files in found:
        if not files and wish.seen is None and item.kind == "reference":
            # On several nodes it is often the first alone that writes.
            nothing = f"{named(item)}: nothing was written at {wish.path}, so nothing was uploaded."
            warnings += [nothing] if len(plan.nodes) == 1 else []
            continue
        with naming(item):
            warnings += _upload(item, wish, files, stores[item.datastore], progress)
            say(f"{item.name}: {len(files)} files to datastore {item.datastore!r}.")
    return warnings


def _sizes_of_outputs(items: Sequence[DataItem], stores: OpenStores) -> list[tuple[DataItem, list[int]]]:
    found = []
    for item in items:
        if item.kind == "output":
            with naming(item):
                found.append((item, [file.size or 0 for file in files_at(item, stores)]))
    return found


def _upload(
    item: DataItem, wish: Upload, files: Sequence[tuple[Path, str]], store: DataStore, progress: TransferProgress
) -> list[str]:
    there = set() if wish.overwrite else {found.path for found in store.list(wish.prefix)}
    taken = [target for _, target in files if target in there]
    unnameable = [target for _, target in files if not _is_text(target)]
    left = {*taken, *unnameable}
    upload([pair for pair in files if pair[1] not in left], store, overwrite=wish.overwrite, progress=progress)
    warnings = []
    if taken:
        warnings.append(
            f"{named(item)}: datastore {item.datastore!r} has these already, which are left as they were since "
            f"overwrite is not set: {_shown(taken)}."
        )
    if unnameable:
        warnings.append(f"{named(item)}: not uploaded, since their names are not UTF-8: {_shown(unnameable)}.")
    return warnings


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_IN_WARNING} more" if len(names) > _NAMED_IN_WARNING else ""
    return ", ".join(ascii(name) if not _is_text(name) else name for name in names[:_NAMED_IN_WARNING]) + more


def _files(wish: Upload, globs: Sequence[str]) -> list[tuple[Path, str]]:
    """Each file that the script has left there, with its path on the datastore."""
    root = Path(wish.path)
    if root.is_file():
        is_its_name = Path(wish.prefix).suffix == root.suffix != ""
        return [(root, wish.prefix if is_its_name else _joined(wish.prefix, root.name))]
    found = _below(root) if not globs else {file for glob in globs for at in root.glob(glob) for file in _below(at)}
    files = []
    for file in sorted(found):
        path = file.relative_to(root).as_posix()
        if wish.seen is None or wish.seen.get(path) != mark_of(file):
            files.append((file, _joined(wish.prefix, path)))
    return files


def _fenced(files: list[tuple[Path, str]], fence: Path | None) -> list[tuple[Path, str]]:
    return [pair for pair in files if fence is None or is_file_beneath(pair[0], fence)]


def _below(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
    for folder, _, names in os.walk(root):
        yield from (file for name in names if (file := Path(folder, name)).is_file())


def _joined(prefix: str, path: str) -> str:
    return f"{prefix}/{path}" if prefix else path
