"""Commands that back up, restore and check the home. They work on its files and need no service."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runyard.cli.connection import home
from runyard.cli.display import size_in_words
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, ProgressLine, print_fields, print_json
from runyard.core.settings import read_settings

if TYPE_CHECKING:
    from runyard.cli.home_files import HomeFiles

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder that backups lie in.")]


def backup(
    folder: FolderArgument,
    data: Annotated[
        bool, typer.Option("--data/--no-data", help="With the files of the workspaces' own datastores.")
    ] = True,
    keep: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Then remove all but the newest N backups.")
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Add a backup of this machine's home to a folder. The service may run and be used meanwhile.

    It holds the database, the keys, logs, every file of runs, models and snapshots, and the data of the workspaces'
    own datastores. A second backup into the same folder copies what is new. The folder holds secrets: guard it as you
    guard the home.

    Example: runyard backup /mnt/backups/runyard --keep 14
    """
    files = home_files()
    with ProgressLine(quiet=output is Format.JSON) as progress:
        taken = files.back_up(folder, progress.show, with_data=data, keep=keep)
    notes = list(taken.notes)
    if data and not files.has_data_here:
        notes.append("The workspaces' datastores lie where RUNYARD_DATASTORES says, and are not in this backup.")
    if output is Format.JSON:
        print_json({**asdict(taken), "notes": notes})
        return
    print_fields(
        {
            "backup": taken.name,
            "folder": taken.folder,
            "database": size_in_words(taken.database_bytes),
            "blobs": f"{taken.blobs} ({taken.new_blobs} new, {size_in_words(taken.new_blob_bytes)})",
            "files": f"{taken.files} ({taken.new_files} new)",
            "removed": f"older backups: {taken.removed_snapshots}" if taken.removed_snapshots else "",
        }
    )
    _print_notes(notes)


def restore(
    folder: FolderArgument,
    snapshot: Annotated[str | None, typer.Option(metavar="NAME", help="Which backup; else the newest.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Move what the home holds aside first, into a folder of the home.")
    ] = False,
    leave_out_damaged: Annotated[
        bool, typer.Option("--leave-out-damaged", help="Restore all that is sound, and name what is not.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Bring this machine's home back from a backup alone. The service must not run.

    The home is RUNYARD_HOME, else ~/.runyard, and must be empty. A backup of a PostgreSQL database goes into the empty
    database that RUNYARD_DATABASE_URL names.
    """
    files = home_files()
    with ProgressLine(quiet=output is Format.JSON) as progress:
        restored = files.restore(
            folder, progress.show, name=snapshot, replace=replace, leave_out_damaged=leave_out_damaged
        )
    if output is Format.JSON:
        print_json(asdict(restored))
        return
    print_fields(
        {
            "restored": f"{restored.name}, taken at {restored.taken_at}",
            "home": restored.home,
            "blobs": str(restored.blobs),
            "files": str(restored.files),
            "moved aside": restored.moved_aside,
        }
    )
    _print_notes(list(restored.notes))


def check(
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended; nothing is deleted.")] = False,
    backups: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="With --repair: bring lost files back from backups."),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Look for damage in this machine's home: the database, the hash of every file, and what belongs to nobody.

    Exit code 1 while something is damaged. --repair moves damaged files into a folder damaged-TIME of the home. With
    the service stopped it also moves folders that belong to nothing, and builds a damaged SQLite database again from
    the rows that can be read.
    """
    if backups is not None and not repair:
        raise CommandError("--from needs --repair.", exit_code=Exit.USAGE)
    files = home_files()
    with ProgressLine(quiet=output is Format.JSON) as progress:
        found = files.repair(progress.show, backups) if repair else files.check(progress.show)
    damage = [one for one in found if one.is_damage and not one.repaired]
    if output is Format.JSON:
        print_json({"damaged": len(damage), "findings": [asdict(one) for one in found]})
    else:
        for one in found:
            state = "repaired" if one.repaired else "DAMAGE" if one.is_damage else "note"
            print(f"{state}: {one.part}: {one.what}{f' It was {one.repaired}.' if one.repaired else ''}")
        print(_conclusion(len(damage), after_repair=repair, had_backups=backups is not None))
    if damage:
        raise typer.Exit(Exit.NO)


def _conclusion(damaged: int, *, after_repair: bool, had_backups: bool) -> str:
    if not damaged:
        return "Nothing is damaged."
    counted = "1 thing is damaged." if damaged == 1 else f"{damaged} things are damaged."
    if not after_repair:
        return f"{counted} Repair: `runyard check --repair --from FOLDER`, with a folder of backups if you have one."
    return counted if had_backups else f"{counted} Lost files come back from backups: `--from FOLDER`."


def home_files() -> "HomeFiles":
    # SQLAlchemy and Alembic, 0.2 s: help and wrong usage are answered without them.
    from runyard.cli.home_files import HomeFiles

    return HomeFiles(read_settings(home=home()))


def _print_notes(notes: list[str]) -> None:
    for note in notes:
        typer.echo(f"Note: {note}", err=True)
