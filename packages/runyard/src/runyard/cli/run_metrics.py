from typing import Annotated, Any

import typer

from runyard.cli.connection import connect, quoted
from runyard.cli.exits import Exit, Refusal
from runyard.cli.output import Format, FormatOption, print_json, print_table
from runyard.cli.wording import names_in_words, value_in_words


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
        raise Refusal(
            f"Run {run} has no metric {name!r}{of_rank}. It has: {names_in_words(known)}.", exit_code=Exit.NOT_FOUND
        )
    if output is Format.JSON:
        print_json(shaped(series, run))
        return
    rows = [[head["name"], head["kind"], str(head["count"]), value_in_words(_last(values))] for head, values in series]
    print_table(["metric", "kind", "values", "last"], rows, nothing="No metrics.")


def _last(values: list[Any]) -> Any:
    """Last value; for a table its last row."""
    last = values[-1] if values else None
    if not isinstance(last, dict):
        return last
    return {name: cell[-1] if isinstance(cell, list) and cell else cell for name, cell in last.items()}
