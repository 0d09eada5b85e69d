from typing import Annotated, Any
from uuid import uuid4

import typer

from runyard.cli.connection import Service, connect, quoted
from runyard.cli.display import (
    cause_of,
    duration_of,
    error_in_words,
    exit_in_words,
    local_time,
    names_in_words,
    seconds_in_words,
    size_in_words,
    value_in_words,
)
from runyard.cli.exits import CommandError, Exit, exit_as, run_goes_on
from runyard.cli.output import Format, FormatOption, print_fields, print_heading, print_json, print_table
from runyard.cli.run_list import list_runs
from runyard.cli.run_logs import logs, print_followed
from runyard.cli.run_transfer import export, import_runs
from runyard.core.data_plan import data_references
from runyard.core.definitions.run import RunDefinition
from runyard.core.records.runs import RunStatus
from runyard.core.records.sweeps import VALUES_TAG

app = typer.Typer(no_args_is_help=True, help="Runs: list them, look into one, follow it, stop it.")
app.command("list")(list_runs)
app.command()(logs)


def metrics(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `runyard runs list` shows it.")],
    name: Annotated[str | None, typer.Option(help="This metric alone.")] = None,
    rank: Annotated[
        int | None, typer.Option(min=0, help="What this rank logged; otherwise all ranks together.")
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Print a run's metrics: how many values each has, and its last one. As JSON all values, as get_metrics() has them.

    \b
    Examples:
      runyard runs metrics mnist_1700000000_1a2b3c4d
      runyard runs metrics mnist_1700000000_1a2b3c4d --rank 1 -o json
    """
    from runyard_sdk.metrics import read_all, shaped

    query = {key: value for key, value in (("name", name), ("rank", rank)) if value is not None}
    service = connect()
    series = read_all(service, f"/runs/{quoted(run)}/metrics", **query)
    if name is not None and not series:
        of_rank = "" if rank is None else f" of rank {rank}"
        known = service.get(f"/runs/{quoted(run)}", metrics=1)["metrics"]
        raise CommandError(
            f"Run {run} has no metric {name!r}{of_rank}. It has: {names_in_words(known)}.", exit_code=Exit.NOT_FOUND
        )
    if output is Format.JSON:
        print_json(shaped(series, run))
        return
    rows = [[head["name"], head["kind"], str(head["count"]), value_in_words(_last(values))] for head, values in series]
    print_table(["metric", "kind", "values", "last"], rows, nothing="No metrics.")


app.command()(metrics)


def rerun(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `runyard runs list` shows it.")],
    experiment: Annotated[str, typer.Option("--experiment", "-e", help="Of the new run; else that of the old.")] = "",
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="What the new run is shown as.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print its log; exit as it does.")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Submit a run again: the same code, arguments and data, and its environment from its lock.

    The lock has the exact versions and hashes of the packages that the run had, so that what came out since, or was
    changed on the index, has no say.

    \b
    Examples:
      runyard runs rerun mnist_1700000000_1a2b3c4d
      runyard runs rerun mnist_1700000000_1a2b3c4d --follow -e mnist-again
    """
    from azureml.core._submission import new_run_id

    service = connect()
    before = service.get(f"/runs/{quoted(run)}")
    new = f"HD_{uuid4()}" if before.get("kind") == "sweep" else new_run_id(experiment or before["experiment"])
    asked = {"run_id": new, "experiment": experiment, "display_name": name}
    record = service.post_again(f"/runs/{quoted(run)}/rerun", asked)
    if follow:
        with run_goes_on(record["id"]):
            end = print_followed(service.follow(record["id"]), output)
        exit_as(end)
    elif output is Format.JSON:
        print_json(record)
    else:
        print(record["id"])


app.command()(rerun)
app.command()(export)
app.command("import")(import_runs)

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `runyard runs list` shows it.")]


@app.command()
def show(run: RunArgument, output: FormatOption = Format.TEXT) -> None:
    """Show one run: status, where its time went, its ranks and nodes, data, metrics, files, its error in words.

    Example: runyard runs show mnist_1700000000_1a2b3c4d
    """
    service = connect()
    address = f"/runs/{quoted(run)}"
    record = service.get(address, metrics=1)
    record["phases"] = record.get("phases") or service.get(f"{address}/events")["phases"]
    record["files"] = service.get(f"{address}/files")["files"]
    record["ranks"] = service.get(f"{address}/ranks")
    if output is Format.JSON:
        print_json(record)
    else:
        _print_run(record)


@app.command()
def wait(
    run: RunArgument,
    timeout_seconds: Annotated[float | None, typer.Option("--timeout", min=0, help="Give up after seconds.")] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Wait until a run has ended. Exit code: 0 completed, 1 failed, canceled or still going on.

    Example: runyard runs wait mnist_1700000000_1a2b3c4d --timeout 600 && ./deploy
    """
    with run_goes_on(run):
        record = _wait(connect(), run, timeout_seconds)
    if output is Format.JSON:
        print_json(record)
    else:
        print(f"{record['id']} {record['status']}")
    exit_as(record)


@app.command()
def cancel(run: RunArgument, output: FormatOption = Format.TEXT) -> None:
    """Stop a run, the processes and the child runs that it started. A run that has ended is left as it is."""
    record = connect().post_again(f"/runs/{quoted(run)}/cancel")
    if output is Format.JSON:
        print_json(record)
    else:
        print(f"{record['id']} {record['status']}")


@app.command()
def delete(
    run: RunArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Remove a run and its children with their logs, metrics and files. Models registered from them stay."""
    service = connect()
    service.get(f"/runs/{quoted(run)}")
    if not yes:
        typer.confirm(f"Delete {run} for good?", abort=True)
    service.delete(f"/runs/{quoted(run)}")
    if output is Format.JSON:
        print_json({"deleted": run})
    else:
        print(f"{run} deleted")


def _print_run(run: dict[str, Any]) -> None:
    names = {"run": run["id"], "experiment": run["experiment"], "status": run["status"], "waits for": run["message"]}
    times = {
        "created": local_time(run["created_at"]),
        "created by": run.get("created_by", ""),
        "duration": duration_of(run),
        "target": run["target"],
    }
    tags = {"tags": ", ".join(f"{name}={value}" for name, value in run["tags"].items())}
    print_fields(
        {
            **names,
            **times,
            **tags,
            "error": error_in_words(run),
            "cause": cause_of(run),
            "page": run.get("web_view", ""),
        }
    )
    _print_way_to_sweep(run)
    for warning in run.get("warnings", ()):
        print(f"warning: {warning}")
    if run.get("dropped_points"):
        print(f"warning: {run['dropped_points']} metric points could not be written by the script and are lost.")
    _print_section("phase", "seconds", [[p["name"], seconds_in_words(p["seconds"])] for p in run["phases"]])
    _print_ranks(run["ranks"])
    _print_data(run)
    last_values = run.get("metrics") or {}
    _print_section("metric", "last", [[name, value_in_words(value)] for name, value in sorted(last_values.items())])
    _print_section("file", "size", [[f["path"], size_in_words(f["size"])] for f in run["files"]])


def _print_way_to_sweep(run: dict[str, Any]) -> None:
    """Print the command that shows the sweep, for a sweep and its children."""
    parent = run.get("parent_id") or ""
    is_child = VALUES_TAG in run["tags"] and run["id"].startswith(f"{parent}_")
    if run.get("kind") == "sweep":
        print(f"A sweep: `runyard sweeps show {run['id']}` shows its children and the best of them.")
    elif parent and is_child:
        print(f"A child of a sweep: `runyard sweeps show {parent}` shows all of them.")


def _print_ranks(found: dict[str, Any]) -> None:
    """Print the processes of a run with several: node, state and exit. Nodes without a process are listed too."""
    nodes, ranks = {node["node"]: node for node in found["nodes"]}, found["ranks"]
    if len(nodes) < 2 and len(ranks) < 2:
        return
    rows = [_rank_row(str(one["rank"]), one["role"], nodes.get(one["node"], {}), exit_in_words(one)) for one in ranks]
    idle = sorted(set(nodes) - {one["node"] for one in ranks})
    rows += [_rank_row("", "", nodes[node], exit_in_words(nodes[node])) for node in idle]
    print_heading("ranks")
    print_table(["rank", "role", "node", "address", "state", "exit"], rows, nothing="")


def _rank_row(rank: str, role: str, node: dict[str, Any], exited: str) -> list[str]:
    return [rank, role, node.get("name") or "", node.get("address") or "", node.get("state") or "", exited]


def _print_data(run: dict[str, Any]) -> None:
    """Print the datasets that the run read and wrote, and its datastore references."""
    rows = [["input", one["input_name"], _dataset(one), one["mode"]] for one in run.get("inputs") or ()]
    rows += [["output", one["output_name"], _dataset(one), ""] for one in run.get("outputs") or ()]
    for one in data_references(RunDefinition(run.get("definition") or {})):
        rows.append(["reference", one.name, f"{one.datastore}: {one.path or '/'}", one.mode.capitalize()])
    if rows:
        print_heading("data")
        print_table(["use", "name", "data", "mode"], rows, nothing="")


def _dataset(used: dict[str, Any]) -> str:
    """Name and version; the id for a dataset that was never registered."""
    return f"{used['name']}, version {used['version']}" if used["name"] else str(used["dataset_id"])


def _print_section(name: str, value: str, rows: list[list[str]]) -> None:
    if rows:
        print_heading(f"{name}s")
        print_table([name, value], rows, nothing="")


def _wait(service: Service, run: str, timeout_seconds: float | None) -> dict[str, Any]:
    from time import monotonic

    ends_at = None if timeout_seconds is None else monotonic() + timeout_seconds
    record: dict[str, Any] = service.get(f"/runs/{quoted(run)}")
    while not RunStatus(record["status"]).is_terminal:
        left = 60.0 if ends_at is None else min(60.0, ends_at - monotonic())
        if left <= 0:
            break
        record = service.get(f"/runs/{quoted(run)}/wait", version=record["version"], timeout=left)
    return record


def _last(values: list[Any]) -> Any:
    """Last value; for a table its last row."""
    last = values[-1] if values else None
    if not isinstance(last, dict):
        return last
    return {name: cell[-1] if isinstance(cell, list) and cell else cell for name, cell in last.items()}
