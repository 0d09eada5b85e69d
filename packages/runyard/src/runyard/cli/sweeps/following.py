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
    """Show the sweep until it has ended; return its last record. Each poll is one request, however many children."""
    run, shown = sweep.record(), ""
    while True:
        view = sweep.view(top)
        shown = _show(run, view, shown, output, print_sweep)
        if RunStatus(run["status"]).is_terminal:
            if output is Format.TEXT and not sys.stdout.isatty():
                print_sweep(run, view)
            return run
        run = sweep.record_after(run["version"], SECONDS_BETWEEN_LOOKS)


def _show(run: dict[str, Any], view: dict[str, Any], shown: str, output: Format, print_sweep: Printer) -> str:
    """Print the state and return its summary. In a pipe and as JSON, only changes are printed."""
    line = ", ".join(filter(None, [run["status"], counts_in_words(view["counts"]), best_in_words(view, run["id"])]))
    if output is Format.TEXT and sys.stdout.isatty():
        sys.stdout.write(_CLEARED)
        print_sweep(run, view)
    elif line != shown and output is Format.JSON:
        print_json_line({"run": run, **view})
    elif line != shown:
        print(line, flush=True)
    return line
