from typing import Annotated

import typer

from runyard.cli.connection import connect
from runyard.cli.output import Format, FormatOption, print_json, print_table
from runyard.cli.wording import size_in_words


def du(output: FormatOption = Format.TEXT) -> None:
    """Show what the home folder's parts take on disk."""
    parts: dict[str, int] = connect().get("/du")
    if output is Format.JSON:
        print_json(parts)
        return
    rows = [[name, size_in_words(size)] for name, size in sorted(parts.items(), key=lambda item: -item[1]) if size]
    print_table(["part", "size"], [*rows, ["total", size_in_words(sum(parts.values()))]], nothing="")


def gc(
    older_than_days: Annotated[float, typer.Option("--older-than", min=0, help="Days since last use.")] = 7.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Free disk: blobs nothing refers to, work folders of ended runs, environments and fetched data not used lately.

    Run history, models and datastores are never touched. What goes from the caches is made again when a run needs it.
    """
    freed: dict[str, dict[str, int]] = connect().post("/gc", {"older_than_seconds": older_than_days * 86400})
    if output is Format.JSON:
        print_json(freed)
        return
    rows = [[part, str(what["count"]), size_in_words(what["bytes"])] for part, what in freed.items() if what["count"]]
    print_table(["part", "removed", "freed"], rows, nothing="Nothing to free.")
