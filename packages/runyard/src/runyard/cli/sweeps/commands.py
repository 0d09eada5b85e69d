"""`runyard sweeps`: list, show and follow sweeps."""

import shutil
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from runyard.cli.connection import WorkspaceOption, connect
from runyard.cli.display import duration_of, error_in_words, local_time, value_in_words
from runyard.cli.exits import exit_as
from runyard.cli.output import (
    Format,
    FormatOption,
    print_fields,
    print_heading,
    print_json,
    print_json_line,
    print_table,
)
from runyard.cli.sweeps import display
from runyard.cli.sweeps.client import SweepArgument, SweepClient
from runyard.cli.sweeps.display import best_in_words, counts_in_words
from runyard.cli.sweeps.export import export
from runyard.cli.sweeps.plot import draw_plot
from runyard.core.records.runs import RunStatus

HELP = """Sweeps: hyperparameter tuning with HyperDrive, looked into.

\b
Examples:
  runyard sweeps list                      newest first, with the best so far
  runyard sweeps show SWEEP                the best values, the children, a plot
  runyard sweeps show SWEEP -f             the same, drawn again until the sweep has ended
  runyard sweeps export SWEEP --to all.csv
  runyard runs logs -f SWEEP               hyperdrive.txt: every value and every decision
  runyard runs cancel SWEEP                ends its children too"""

app = typer.Typer(no_args_is_help=True, help=HELP)
app.command()(export)


@app.command("list")
def list_sweeps(
    workspace: WorkspaceOption = None,
    experiment: Annotated[str | None, typer.Option("--experiment", "-e", help="Only sweeps of this one.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="At most this many.")] = 20,
    output: FormatOption = Format.TEXT,
) -> None:
    """List sweeps, newest first: the best so far, and how many of the children have ended.

    Example: runyard sweeps list -e mnist -n 5
    """
    service = connect()
    runs, has_more = service.runs(workspace, limit, kind="sweep", experiment=experiment)
    if experiment is not None and not runs:
        service.require_experiment(workspace, experiment)
    found = [(run, SweepClient(service, run["id"]).summary()) for run in runs]
    if has_more:
        print(f"There are more sweeps: the list ends after {limit}, -n N sets how many.", file=sys.stderr)
    if output is Format.JSON:
        print_json([{**run, **summary} for run, summary in found])
        return
    headings = ["sweep", "experiment", "status", "created", "metric", "best", "ended"]
    print_table(headings, [_listed(run, summary) for run, summary in found], nothing="No sweeps.")


@app.command()
def show(
    sweep: SweepArgument,
    top: Annotated[int, typer.Option(min=1, max=10_000, help="The table has this many children, the best.")] = 20,
    follows: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the sweep has ended, and exit as it does.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show one sweep: the best so far and its values, the children best first, and a plot of all of them.

    In the plot every dot is a trial, in the order in which they were sampled, and the line is the best so far. With -f
    a terminal is drawn again as children come along; a pipe gets a line for each change, with -o json an object.

    \b
    Examples:
      runyard sweeps show HD_1a2b3c4d-0000-4000-8000-000000000000
      runyard sweeps show HD_1a2b3c4d-0000-4000-8000-000000000000 --top 100 -o json
      runyard sweeps show HD_1a2b3c4d-0000-4000-8000-000000000000 -f && ./deploy.sh
    """
    asked = SweepClient(connect(), sweep)
    if follows:
        exit_as(follow(asked, top, output, _print_sweep))
        return
    run = asked.record()
    view = asked.view(top)
    if output is Format.JSON:
        print_json({"run": run, **view})
    else:
        _print_sweep(run, view)


def _listed(run: dict[str, Any], summary: dict[str, Any]) -> list[str]:
    best = summary["best"] or {}
    names = [run["id"], run["experiment"], run["status"], local_time(run["created_at"])]
    number = value_in_words(best.get("best_primary_metric"))
    return [*names, display.metric_in_words(summary["sweep"]), number, display.done_of_all(run, summary)]


def _print_sweep(run: dict[str, Any], view: dict[str, Any]) -> None:
    _print_facts(run, view)
    print_heading("space")
    space = view["sweep"]["sampling"]["parameter_space"]
    rows = [[name, display.expression_in_words(expression)] for name, expression in space.items()]
    print_table(["name", "drawn from"], rows, nothing="Nothing is searched.")
    _print_plot(view)
    _print_children(run["id"], view)


def _print_facts(run: dict[str, Any], view: dict[str, Any]) -> None:
    sweep = view["sweep"]
    names = {"sweep": run["id"], "experiment": run["experiment"], "status": run["status"]}
    asked = {
        "metric": display.metric_in_words(sweep),
        "sampling": display.sampling_in_words(sweep, view.get("seed")),
        "policy": display.policy_in_words(sweep),
        "bounds": display.bounds_in_words(sweep),
    }
    times = {
        "created": local_time(run["created_at"]),
        "duration": duration_of(run),
        "time left": display.time_left(run, view),
    }
    found = {"children": display.counts_in_words(view["counts"]), "best": display.best_in_words(view, run["id"])}
    ends = {"error": error_in_words(run), "page": run.get("web_view", "")}
    print_fields({**names, **asked, **times, **found, **ends})
    for warning in run.get("warnings", ()):
        print(f"warning: {warning}")


def _print_plot(view: dict[str, Any]) -> None:
    width = shutil.get_terminal_size().columns
    lines = draw_plot(view["progress"], width=width, encoding=sys.stdout.encoding)
    if lines:
        print_heading(view["sweep"]["primary_metric"]["name"])
        print("\n".join(lines))


def _print_children(sweep_id: str, view: dict[str, Any]) -> None:
    trials = view["trials"]
    valued = [(trial, display.values_of(trial)) for trial in trials]
    names = list(dict.fromkeys(name for _, values in valued for name in values))
    rows = [_child_row(trial, [values.get(name, "") for name in names], sweep_id) for trial, values in valued]
    metric = view["sweep"]["primary_metric"]["name"]
    print_heading("children, the best first")
    print_table(["child", "status", metric, "logged", *names, "why"], rows, nothing="No children yet.")
    if left := view["trial_count"] - len(trials):
        print(f"and {left:,} more: --top N shows more, `runyard sweeps export {sweep_id}` writes all.")
    if trials:
        print(f"\nChild N is the run {sweep_id}_N: `runyard runs logs {sweep_id}_{trials[0]['number']}`")


def _child_row(trial: dict[str, Any], values: list[Any], sweep_id: str) -> list[str]:
    number = value_in_words(trial["best_primary_metric"])
    counted = [display.child_name(trial, sweep_id), trial["status"], number, str(trial["intervals"])]
    return [*counted, *map(display.cell_in_words, values), trial["why"]]


POLL_SECONDS = 2.0
_CLEAR_SCREEN = "\x1b[H\x1b[2J\x1b[3J"

Printer = Callable[[dict[str, Any], dict[str, Any]], None]


def follow(sweep: SweepClient, top: int, output: Format, print_sweep: Printer) -> dict[str, Any]:
    """Show the sweep until it has ended; return its last record. Each poll is one request, however many children."""
    run, shown = sweep.record(), ""
    while True:
        view = sweep.view(top)
        shown = _show(run, view, shown, output, print_sweep)
        if RunStatus(run["status"]).is_terminal:
            if output is Format.TEXT and not sys.stdout.isatty():
                print_sweep(run, view)
            return run
        run = sweep.record_after(run["version"], POLL_SECONDS)


def _show(run: dict[str, Any], view: dict[str, Any], shown: str, output: Format, print_sweep: Printer) -> str:
    """Print the state and return its summary. In a pipe and as JSON, only changes are printed."""
    line = ", ".join(filter(None, [run["status"], counts_in_words(view["counts"]), best_in_words(view, run["id"])]))
    if output is Format.TEXT and sys.stdout.isatty():
        sys.stdout.write(_CLEAR_SCREEN)
        print_sweep(run, view)
    elif line != shown and output is Format.JSON:
        print_json_line({"run": run, **view})
    elif line != shown:
        print(line, flush=True)
    return line
