"""`runyard sweeps show -f`: a sweep as it comes along."""

import sys
from collections.abc import Callable
from typing import Any

from runyard.cli.output import Format, print_json_line
from runyard.cli.sweeps.asking import Sweep
from runyard.cli.sweeps.wording import best_in_words, counts_in_words
from runyard.model.runs import RunStatus

SECONDS_BETWEEN_LOOKS = 2.0
_CLEARED = "\x1b[H\x1b[2J\x1b[3J"

Printer = Callable[[dict[str, Any], dict[str, Any]], None]


def follow(sweep: Sweep, top: int, output: Format, print_sweep: Printer) -> dict[str, Any]:
    """Show it until it has ended, and give its record then. One look is one request, however many children it has."""
    run, told = sweep.record(), ""
    while True:
        view = sweep.view(top)
        told = _show(run, view, told, output, print_sweep)
        if RunStatus(run["status"]).is_terminal:
            if output is Format.TEXT and not sys.stdout.isatty():
                print_sweep(run, view)
            return run
        run = sweep.record_after(run["version"], SECONDS_BETWEEN_LOOKS)


def _show(run: dict[str, Any], view: dict[str, Any], told: str, output: Format, print_sweep: Printer) -> str:
    """What was told; in a pipe, and as JSON, nothing is told twice."""
    line = ", ".join(filter(None, [run["status"], counts_in_words(view["counts"]), best_in_words(view, run["id"])]))
    if output is Format.TEXT and sys.stdout.isatty():
        sys.stdout.write(_CLEARED)
        print_sweep(run, view)
    elif line != told and output is Format.JSON:
        print_json_line({"run": run, **view})
    elif line != told:
        print(line, flush=True)
    return line
