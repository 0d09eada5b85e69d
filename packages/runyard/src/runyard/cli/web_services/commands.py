"""`runyard services`: list, show, log and delete web services."""

import sys
from typing import Annotated, Any

import typer

from runyard.cli.connection import CreatorOption, ServiceError, WorkspaceOption, connect
from runyard.cli.display import lineage_in_words, local_time, seconds_in_words, size_in_words
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
from runyard.cli.web_services.client import NameArgument, Record, has_ended, has_failed, open_web_service
from runyard.cli.web_services.deploy import curl_line
from runyard.cli.web_services.request import send_test_request

HELP = """Web services: models that answer over HTTP. `runyard deploy` makes one."""
app = typer.Typer(no_args_is_help=True, help=HELP)
app.command("test")(send_test_request)

LOG_LINES = 1000
POLL_SECONDS = 0.5
WHICH = {"primary": "Primary", "secondary": "Secondary"}


@app.command("list")
def list_services(
    workspace: WorkspaceOption = None,
    model: Annotated[str | None, typer.Option(help="Only those of this model: NAME or NAME:VERSION.")] = None,
    created_by: CreatorOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """List the web services of a workspace.

    Example: runyard services list --model digits
    """
    asked = {"model": model, "created_by": created_by}
    found = connect().listed(workspace, "services", **{name: value for name, value in asked.items() if value})
    if output is Format.JSON:
        print_json(found)
        return
    headings = ["service", "type", "state", "models", "replicas", "scoring uri"]
    rows = [
        [s["name"], s["type"], s["state"], " ".join(s["models"]), str(s["replicas"]), s["scoring_uri"] or ""]
        for s in found
    ]
    print_table(headings, rows, nothing="No web services. Deploy one: runyard deploy MODEL")


@app.command()
def show(name: NameArgument, workspace: WorkspaceOption = None, output: FormatOption = Format.TEXT) -> None:
    """Show one web service: state, how it is asked, its models and what they came from, its requests and workers.

    Example: runyard services show digits
    """
    service = open_web_service(name, workspace)
    record = service.record()
    record["metrics"], record["lineage"] = service.metrics(), service.lineages(record)
    if output is Format.JSON:
        print_json(record)
    else:
        _print_service(record)


@app.command()
def logs(
    name: NameArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the web service is deleted.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=100_000, help="Its last lines.")] = LOG_LINES,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Print what a web service wrote: the build of its environment, its script's output, errors.

    As JSON each line is an object `{"text"}`, a piece of the log.

    Example: runyard services logs -f digits
    """
    service = open_web_service(name, workspace)
    piece, offset = service.log(lines=lines)
    _print_piece(piece, output)
    while follow:
        try:
            piece, offset = service.log(offset=offset)
        except ServiceError as error:
            if error.code != "not_found":
                raise
            return
        _print_piece(piece, output)
        if not piece:
            _pause()


@app.command()
def keys(
    name: NameArgument,
    regenerate: Annotated[str | None, typer.Option(metavar="primary|secondary", help="Make a new one of it.")] = None,
    bare: Annotated[
        bool, typer.Option("--bare", help="Only what a request needs: the primary key, or a token.")
    ] = False,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Print the two keys of a web service. Either is good: `Authorization: Bearer KEY`.

    \b
    Examples:
      runyard services keys digits
      curl -H "Authorization: Bearer $(runyard services keys digits --bare)" ...
      runyard services keys digits --regenerate secondary
    """
    service = open_web_service(name, workspace)
    if regenerate is not None and regenerate.lower() not in WHICH:
        raise CommandError(f"--regenerate takes primary or secondary, got {regenerate!r}.", exit_code=Exit.USAGE)
    if bare and service.record()["token_auth_enabled"]:
        print(service.token())
        return
    found = service.new_key(WHICH[regenerate.lower()]) if regenerate else service.keys()
    if output is Format.JSON:
        print_json(found)
    elif bare:
        print(found["primary"])
    else:
        print_fields({which: found[which] for which in WHICH})


@app.command()
def delete(
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Delete a web service: its port no longer answers, its workers end. Its models stay."""
    service = open_web_service(name, workspace)
    service.record()
    if not yes:
        typer.confirm(f"Delete the web service {name}?", abort=True)
    service.delete()
    if output is Format.JSON:
        print_json({"deleted": name})
    else:
        print(f"{name} deleted")


def _print_service(record: Record) -> None:
    names = {"service": record["name"], "type": record["type"], "state": record["state"], "doing": record["step"]}
    asked = {"scoring uri": record["scoring_uri"] or "", "swagger uri": record["swagger_uri"] or ""}
    tags = ", ".join(f"{key}={value}" for key, value in (record["tags"] or {}).items())
    times = {"created": local_time(record["created_at"]), "updated": local_time(record["updated_at"])}
    print_fields(
        {
            **names,
            "revision": _revision_in_words(record),
            **asked,
            "keys": _keys_in_words(record),
            "tags": tags,
            "created by": record["created_by"],
            **times,
        }
    )
    error = record["error"] or {}
    if error:
        print(f"error: {error['problem']} {error.get('hint') or ''}".rstrip())
    for note in record["notes"]:
        print(f"note: {note}")
    _print_models(record)
    _print_metrics(record)
    if record["revision"]:
        print_heading("try it")
        print(curl_line(record))


def _revision_in_words(record: Record) -> str:
    answers = str(record["revision"] or "none")
    if has_failed(record):
        return f"{answers}; {record['failed_revision']} failed"
    return answers if has_ended(record) else f"{answers}; {record['wanted_revision']} is on its way"


def _keys_in_words(record: Record) -> str:
    if record["token_auth_enabled"]:
        return "a token is asked for"
    return f"asked for: runyard services keys {record['name']}" if record["auth_enabled"] else "none asked for"


def _print_models(record: Record) -> None:
    print_heading("models")
    rows = [[name, lineage_in_words(found)] for name, found in zip(record["models"], record["lineage"], strict=True)]
    print_table(["model", "from"], rows, nothing="")


def _print_metrics(record: Record) -> None:
    metrics = record["metrics"]
    if not metrics:
        print_heading("No numbers: its gateway is not running.")
        return
    print_heading("requests")
    latency = ", ".join(f"{name} {value:.1f} ms" for name, value in (metrics.get("latency_ms") or {}).items())
    counts = ", ".join(f"{count} x {status}" for status, count in sorted((metrics.get("requests") or {}).items()))
    now = {"waiting": str(metrics.get("queued", 0)), "in work": str(metrics.get("in_work", 0))}
    print_fields({"answered": counts or "none", "latency": latency, **now})
    print_heading(f"replicas, {record['replicas']} of {record['wanted_replicas']}")
    rows = [_replica_row(one) for one in metrics.get("replicas") or ()]
    headings = ["pid", "state", "requests", "memory", "peak memory", "cpu", "restarts"]
    print_table(headings, rows, nothing="No worker is there.")


def _replica_row(one: dict[str, Any]) -> list[str]:
    memory = [size_in_words(one.get(field) or 0) for field in ("memory_bytes", "peak_memory_bytes")]
    used = seconds_in_words(one.get("cpu_seconds"))
    return [
        str(one["pid"]),
        one.get("state") or "",
        str(one.get("requests", 0)),
        *memory,
        used,
        str(one.get("restarts", 0)),
    ]


def _print_piece(piece: bytes, output: Format) -> None:
    if not piece:
        return
    if output is Format.JSON:
        print_json_line({"text": piece.decode("utf-8", "replace")})
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _pause() -> None:
    from time import sleep

    sleep(POLL_SECONDS)
