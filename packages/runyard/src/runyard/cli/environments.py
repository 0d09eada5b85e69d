from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from runyard.cli.connection import home
from runyard.cli.output import Format, FormatOption, print_json, print_table
from runyard.cli.wording import size_in_words

app = typer.Typer(no_args_is_help=True, help="Environments built on this machine for runs.")

SHOWN_PACKAGES = 4


@app.command("list")
def list_environments(output: FormatOption = Format.TEXT) -> None:
    """List the environments that are built, the last used first."""
    from runyard.environments.cache import CachedEnvironment, list_built

    def row(built: CachedEnvironment) -> list[str]:
        used = "in use" if built.in_use else f"{built.last_used_at.astimezone():%Y-%m-%d %H:%M}"
        return [built.key, built.python, size_in_words(built.bytes), used, _summary(built.packages)]

    found = list(reversed(list_built(home() / "environments")))
    if output is Format.JSON:
        print_json([asdict(built) for built in found])
        return
    headings = ["environment", "python", "size", "used", "packages"]
    print_table(headings, [row(built) for built in found], nothing="No environments are built.")


@app.command()
def prune(
    older_than_days: Annotated[float, typer.Option("--older-than", min=0, help="Days since last use.")] = 30.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Remove environments and compiled wheels that no run has used lately. They are built again when one needs them."""
    from runyard.environments.cache import prune as prune_unused
    from runyard.environments.compiled import CompiledWheels

    root, age = home() / "environments", timedelta(days=older_than_days)
    removed = prune_unused(root, older_than=age)
    removed += [f"wheels/{key}" for key in CompiledWheels(root, {}).prune(age)]
    if output is Format.JSON:
        print_json(removed)
        return
    print_table(["removed"], [[key] for key in removed], nothing="Nothing to remove.")


def _summary(packages: tuple[str, ...]) -> str:
    more = len(packages) - SHOWN_PACKAGES
    return " ".join(packages[:SHOWN_PACKAGES]) + (f" and {more} more" if more > 0 else "")
