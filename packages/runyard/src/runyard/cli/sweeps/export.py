"""`runyard sweeps export`: all children of a sweep as CSV or JSON."""

import csv
import io
import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from runyard.cli.connection import connect
from runyard.cli.exits import CommandError, Exit
from runyard.cli.sweeps.client import SweepArgument, SweepClient
from runyard.cli.sweeps.display import values_of
from runyard.core.durable_files import replacement

COLUMNS = (
    "run_id",
    "number",
    "status",
    "best_primary_metric",
    "intervals",
    "stopped_by",
    "stopped_at",
    "stopped_because",
)
PREFIX = "value_"


class ExportFormat(StrEnum):
    CSV = "csv"
    JSON = "json"


def export(
    sweep: SweepArgument,
    to: Annotated[Path | None, typer.Option(help="This file; otherwise stdout.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    output: Annotated[
        ExportFormat | None, typer.Option("--output", "-o", help="Otherwise as the file's name ends, or csv.")
    ] = None,
) -> None:
    """Write all children of a sweep, the best first: status, best of the primary metric, and a column for each value.

    \b
    Examples:
      runyard sweeps export HD_1a2b3c4d-0000-4000-8000-000000000000 --to all.csv
      runyard sweeps export HD_1a2b3c4d-0000-4000-8000-000000000000 -o json | jq '.[0]'
    """
    if to is not None and to.exists() and not overwrite:
        raise CommandError(f"{to} is there already.", hint="--overwrite replaces it.", exit_code=Exit.USAGE)
    asked = SweepClient(connect(), sweep)
    asked.record()
    rows = trial_rows(asked.trials())
    is_json = output is ExportFormat.JSON or (output is None and to is not None and to.suffix.lower() == ".json")
    text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n" if is_json else _as_csv(rows)
    if to is None:
        sys.stdout.write(text)
    else:
        _write(to, text)
        print(f"{len(rows):,} children in {to}", file=sys.stderr)


def trial_rows(trials: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One flat row per trial. A value with the name of a column gets the prefix `value_`."""
    return [{**_own(trial), **_renamed(values_of(trial))} for trial in trials]


def _own(trial: dict[str, Any]) -> dict[str, Any]:
    stop = trial["stop"] or {}
    own = [trial[name] for name in COLUMNS[:5]]
    return dict(zip(COLUMNS, [*own, stop.get("policy"), stop.get("interval"), stop.get("text")], strict=True))


def _renamed(values: dict[str, Any]) -> dict[str, Any]:
    return {_free_name(name, values) if name in COLUMNS else name: value for name, value in values.items()}


def _free_name(name: str, taken: dict[str, Any]) -> str:
    longer = f"{PREFIX}{name}"
    return _free_name(longer, taken) if longer in taken else longer


def _as_csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    names = list(dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)]))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else value


def _write(target: Path, text: str) -> None:
    """Replace the file atomically: a full disk leaves the old one. Raises CommandError."""
    try:
        with replacement(target) as fd, open(fd, "w", encoding="utf-8", closefd=False) as file:
            file.write(text)
    except OSError as error:
        raise CommandError(
            f"{target} cannot be written: {error.strerror}.", hint="--to names a file in a folder that is there."
        ) from error
