"""Commands for the service of this home: start, stop, status, disk use, and the token for Prometheus."""

import os
from typing import Annotated, Any

import typer

from runyard.access.tokens import Tokens
from runyard.cli.backups import home_files
from runyard.cli.connection import connect, home
from runyard.cli.display import size_in_words
from runyard.cli.exits import Exit
from runyard.cli.output import Format, FormatOption, print_fields, print_json, print_table
from runyard.server.lifecycle import service_status, start_service, stop_service
from runyard.server.lifecycle.control import count_web_services, stop_web_services


def up(
    begin_anew: Annotated[
        bool,
        typer.Option("--begin-anew", help="Where the database is lost: move files of runs aside, begin with none."),
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Start the service and keep it, until `runyard down`.

    Nothing needs this: the SDK starts the service on first use. One that `up` started does not stop when idle.
    """
    if begin_anew:
        aside = home_files().begin_anew()
        typer.echo(f"What belonged to the lost database lies in {aside} now.", err=True)
    _show(start_service(home(), keep=True), output)


def down(
    services: Annotated[
        bool, typer.Option("--services", help="Stop the web services too, until `runyard up`.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Stop the service. Runs go on; what they log is delivered when the service is back.

    Web services go on answering too, unless --services is given: then `runyard up`, or the next use of the SDK, brings
    them back.
    """
    stopped = stop_service(home())
    stopped_services = stop_web_services(home()) if services else 0
    answering = count_web_services(home())
    if output is Format.JSON:
        print_json({"stopped": stopped, "stopped_services": stopped_services, "answering_services": answering})
        return
    print("Stopped." if stopped else "No service was running.")
    if stopped_services:
        print(f"{_counted(stopped_services)} stopped answering until `runyard up`.")
    if answering:
        print(f"{_counted(answering)} still running. To stop web services too: `runyard down --services`.")


def _counted(web_services: int) -> str:
    return f"{web_services} web service{'' if web_services == 1 else 's'}"


def status(output: FormatOption = Format.TEXT) -> None:
    """Tell whether the service runs, and where. Exit code 4 when it does not.

    With RUNYARD_URL set, the service at that address is asked.
    """
    service = connect() if os.environ.get("RUNYARD_URL") else None
    if service is not None and service.is_elsewhere:
        _show_elsewhere(service.get("/health"), output)
        return
    found = service_status(home())
    if found is None:
        if output is Format.JSON:
            print_json({"running": False, "home": str(home())})
        else:
            print(f"No service is running for {home()}.")
        raise typer.Exit(Exit.NO_SERVICE)
    _show(found, output)


def _show_elsewhere(health: dict[str, Any], output: Format) -> None:
    facts = {"url": os.environ["RUNYARD_URL"], "version": health["version"]}
    if output is Format.JSON:
        print_json({"running": True, **facts})
    else:
        print_fields(facts)


def _show(service: dict[str, Any], output: Format) -> None:
    shown = ("url", "reached_at", "pid", "version", "kept", "stands_by")
    facts = {name: service[name] for name in shown if name in service}
    if output is Format.JSON:
        print_json({"running": True, **facts, "home": str(home())})
        return
    stays = "until `runyard down`" if facts.pop("kept", False) else "until idle for 30 minutes"
    if holder := facts.pop("stands_by", None):
        facts["stands by"] = f"{holder} holds the database"
    named = {name.replace("_", " "): str(value) for name, value in facts.items()}
    print_fields({**named, "home": str(home()), "stays": stays})


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


metrics_app = typer.Typer(no_args_is_help=True, help="Figures for Prometheus.")


@metrics_app.callback()
def _metrics_group() -> None:
    """Keep the group although it has one command."""


@metrics_app.command()
def token() -> None:
    """Print the token that opens GET /metrics and nothing else.

    It changes with the owner's token. Keep it in the file that `credentials_file` of Prometheus names.

    Example: runyard metrics token > /etc/prometheus/runyard.token
    """
    print(Tokens(connect().token).metrics_token())
