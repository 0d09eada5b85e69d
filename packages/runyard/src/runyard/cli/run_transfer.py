"""`runyard runs export` and `runyard runs import`: transfer runs between homes or servers."""

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from runyard.cli.connection import WorkspaceOption, connect, quoted
from runyard.cli.display import size_in_words
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, ProgressLine, print_fields, print_json
from runyard.runs.transfer.archive import HEAD, ArchiveReader

_PIECE_BYTES = 1 << 20


def export(
    arguments: Annotated[
        list[str], typer.Argument(metavar="RUN... FILE", help="Ids of ended runs, then a file or a folder to write to.")
    ],
    output: FormatOption = Format.TEXT,
) -> None:
    """Write runs to an archive, with everything that belongs to them, for `runyard runs import` elsewhere.

    That is: child runs, metrics, logs, files, snapshots, environment locks, and models registered from them.

    Example: runyard runs export mnist_1794739134_da76600e mnist.tar
    """
    *runs, target = arguments
    if not runs:
        raise CommandError("Name the runs and then the file, as in: runyard runs export RUN FILE", exit_code=Exit.USAGE)
    file = Path(target, f"{runs[0]}.tar") if os.path.isdir(target) else Path(target)
    if file.exists():
        raise CommandError(f"{str(file)!r} exists already.", hint="Name another file, or remove it first.")
    with ProgressLine(quiet=output is Format.JSON) as progress:
        count = progress.counter("bytes")
        connect().save(f"/export?{urlencode([('run', run) for run in runs])}", file, on_bytes=count)
        head = _verified(file, progress)
    facts = {"file": str(file), "workspace": head["workspace"], "runs": head["runs"], "bytes": file.stat().st_size}
    if output is Format.JSON:
        print_json(facts)
        return
    print_fields({**_in_words(facts), "size": size_in_words(facts["bytes"])})


def import_runs(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An archive of `runyard runs export`.")],
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Add the runs of an archive, with everything that belongs to them, under their ids.

    They go to the workspace of the same name unless --workspace says which; it is made where it is not there. A run
    that is here already is left as it is where it is the same, and refused where it differs.

    Example: runyard runs import mnist.tar
    """
    if not file.is_file():
        raise CommandError(f"There is no file {str(file)!r}.", exit_code=Exit.USAGE)
    service = connect()
    with ProgressLine(quiet=output is Format.JSON) as progress:
        name = workspace or str(_verified(file, progress)["workspace"])
        service.put(f"/workspaces/{quoted(name)}", {"exist_ok": True})
        done: dict[str, Any] = service.upload(f"/workspaces/{quoted(name)}/import", file, progress.counter("bytes"))
    if output is Format.JSON:
        print_json(done)
        return
    print_fields(_in_words(done))


def _verified(file: Path, progress: ProgressLine) -> dict[str, Any]:
    """Read the whole archive and return its head. Raises InvalidArgument where it is damaged."""
    head: dict[str, Any] = {}
    with file.open("rb") as opened:
        for number, member in enumerate(ArchiveReader(iter(lambda: opened.read(_PIECE_BYTES), b"")).members()):
            progress.show("checking", number, 0)
            if member.name == HEAD:
                head = member.json()
    if not isinstance(head, dict) or not {"workspace", "runs"} <= head.keys():
        raise CommandError(f"{str(file)!r} is no archive of runs.", exit_code=Exit.USAGE)
    return head


def _in_words(facts: dict[str, Any]) -> dict[str, str]:
    shown = {name: value for name, value in facts.items() if name != "bytes"}
    return {
        name.replace("_", " "): ", ".join(value) if isinstance(value, list) else str(value)
        for name, value in shown.items()
    }
