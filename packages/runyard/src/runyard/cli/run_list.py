"""`runyard runs list`: runs, with columns of metrics, arguments and tags."""

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer

from runyard.cli.connection import CreatorOption, Service, WorkspaceOption, connect, quoted
from runyard.cli.display import duration_of, local_time, names_in_words, value_in_words
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_json, print_table
from runyard.core.records.runs import RunStatus

_RUNS_ASKED_FOR_METRICS = 100
_OWNER = "owner"
"""The usual creator: the column is left out where it has created all runs."""
_Run = dict[str, Any]


def list_runs(
    workspace: WorkspaceOption = None,
    experiment: Annotated[str | None, typer.Option("--experiment", "-e", help="Only runs of this experiment.")] = None,
    status: Annotated[RunStatus | None, typer.Option(help="Only runs in this status.", case_sensitive=False)] = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag: `name` or `name=value`.")] = None,
    created_by: CreatorOption = None,
    by_metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="Best value of this metric first, in a column.")
    ] = None,
    above: Annotated[float | None, typer.Option(help="With --by-metric: only runs above this value.")] = None,
    ascending: Annotated[bool, typer.Option("--ascending", help="With --by-metric: smallest first.")] = False,
    show_metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A column with the last value of this metric.")
    ] = None,
    show_argument: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A column with this argument, `rate` or `--rate`.")
    ] = None,
    show_tag: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A column with this tag.")] = None,
    children: Annotated[bool, typer.Option("--children", help="Child runs too.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many.")] = 20,
    output: FormatOption = Format.TEXT,
) -> None:
    """List runs, newest first. The options --show-... may be given several times.

    \b
    Examples:
      runyard runs list -e mnist --status Failed -n 5
      runyard runs list -e mnist --by-metric accuracy --show-argument rate --show-tag stage
    """
    if above is not None and by_metric is None:
        raise CommandError("--above needs --by-metric NAME.", exit_code=Exit.USAGE)
    metrics = list(dict.fromkeys([*([by_metric] if by_metric else []), *(show_metric or [])]))
    query: dict[str, Any] = {"experiment": experiment, "status": status, "tag": tag, "created_by": created_by}
    query |= {"order_by_metric": by_metric, "above": above, "ascending": ascending}
    query |= {"children": children, "metrics": bool(metrics)}
    service = connect()
    runs, has_more = service.runs(workspace, limit, **query)
    if not runs:
        _check_names(service, workspace, experiment, by_metric)
    arguments = [name.lstrip("-") for name in show_argument or []]
    if arguments:
        _add_arguments(service, runs)
    columns = _columns(runs, {"metric": metrics, "argument": arguments, "tag": show_tag or []})
    if output is Format.JSON:
        print_json(runs)
    else:
        shows_creator = any(run.get("created_by") not in (None, "", _OWNER) for run in runs)
        headings = ["run", "experiment", "status", "created", "duration", *(["created by"] if shows_creator else [])]
        headings += [name for _, name in columns]
        rows = [_row(run, columns, shows_creator=shows_creator) for run in runs]
        print_table(headings, rows, nothing="No runs.")
    if has_more:
        print(f"There are more runs: the list ends after {limit}, -n N sets how many.", file=sys.stderr)


def _check_names(service: Service, workspace: str | None, experiment: str | None, metric: str | None) -> None:
    """Raise Refusal for an unknown experiment or metric, where it explains the empty list."""
    if experiment is not None:
        service.require_experiment(workspace, experiment)
    if metric is not None:
        query = {"experiment": experiment, "metrics": True, "children": True}
        others, _ = service.runs(workspace, _RUNS_ASKED_FOR_METRICS, **query)
        _columns(others, {"metric": [metric]})


def _columns(runs: Sequence[_Run], wanted: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """(kind, name) of each column. Raises CommandError for a name that none of the runs has."""
    for kind, names in wanted.items():
        known = {name for run in runs for name in run.get(f"{kind}s") or ()}
        unknown = [name for name in names if runs and name not in known]
        if unknown:
            raise CommandError(
                f"None of these runs has the {kind} {unknown[0]!r}. They have: {names_in_words(known)}.",
                exit_code=Exit.NOT_FOUND,
            )
    return [(kind, name) for kind, names in wanted.items() for name in names]


def _row(run: _Run, columns: Iterable[tuple[str, str]], *, shows_creator: bool) -> list[str]:
    shown = [run["id"], run["experiment"], run["status"], local_time(run["created_at"]), duration_of(run)]
    shown += [run["created_by"] or "-"] if shows_creator else []
    return shown + [value_in_words((run.get(f"{kind}s") or {}).get(name)) for kind, name in columns]


def _add_arguments(service: Service, runs: Sequence[_Run]) -> None:
    """Add `arguments` to each run: a listing does not hold them."""
    from runyard_sdk.parallel import each_in_parallel

    by_id = {run["id"]: run for run in runs}
    for run_id, whole in each_in_parallel(lambda run_id: service.get(f"/runs/{quoted(run_id)}"), by_id):
        by_id[run_id]["arguments"] = _arguments(whole["definition"])


def _arguments(definition: Mapping[str, Any]) -> dict[str, str]:
    """`{"rate": "0.5"}` from `--rate 0.5`, `--rate=0.5` or `-rate 0.5`; a flag without a value gets "yes"."""
    command = definition.get("arguments") or definition.get("command") or []
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    found: dict[str, str] = {}
    for word, following in pairwise([*words, "--"]):
        if _is_name(word):
            name, equals, value = word.lstrip("-").partition("=")
            found[name] = value if equals else "yes" if _is_name(following) else following
    return found


def _is_name(word: str) -> bool:
    return word.startswith("-") and not word.lstrip("-")[:1].isdigit() and not word.startswith("-.")
