import os
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from runyard.cli.connection import home
from runyard.cli.output import Format, FormatOption, print_json, print_table
from runyard.cli.wording import size_in_words

if TYPE_CHECKING:
    from runyard.environments.uv import UvEnvironments

app = typer.Typer(no_args_is_help=True, help="Environments built on this machine for runs.")


@app.command("list")
def list_environments(output: FormatOption = Format.TEXT) -> None:
    """List the environments that are built, the last used first."""
    built = _environments().list()
    if output is Format.JSON:
        print_json(built)
        return
    rows = [[e.key, size_in_words(e.size_bytes), f"{e.used_at:%Y-%m-%d %H:%M}", e.summary] for e in built]
    print_table(["environment", "size", "used", "packages"], rows, nothing="No environments are built.")


@app.command()
def prune(
    older_than_days: Annotated[float, typer.Option("--older-than", min=0, help="Days since last use.")] = 30.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Remove environments that no run has used lately. They are built again when a run needs them."""
    removed = _environments().prune(timedelta(days=older_than_days))
    if output is Format.JSON:
        print_json(removed)
        return
    rows = [[e.key, size_in_words(e.size_bytes)] for e in removed]
    print_table(["removed", "size"], rows, nothing="Nothing to remove.")


def _environments() -> "UvEnvironments":
    from runyard.environments.uv import UvEnvironments

    return UvEnvironments(home() / "environments", dict(os.environ))
