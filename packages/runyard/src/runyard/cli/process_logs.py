"""`runyard logs`: logs of the service, the agent and the gateway of this home."""

import os
import sys
import time
from collections import deque
from typing import Annotated, Any

import typer

from runyard.cli.connection import home
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_json_line
from runyard.process_logs.lines import LEVELS, format_line
from runyard.process_logs.reader import ProcessLogTail, filter_lines, merge_tails

POLL_SECONDS = 0.25


def logs(
    service: Annotated[bool, typer.Option("--service", help="The service alone.")] = False,
    agent: Annotated[bool, typer.Option("--agent", help="The agent and its supervisors alone.")] = False,
    gateway: Annotated[bool, typer.Option("--gateway", help="The gateway of web services alone.")] = False,
    access: Annotated[bool, typer.Option("--access", help="The requests that the service answered.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Only the last lines; 0 for all.")] = 100,
    level: Annotated[str, typer.Option(metavar="|".join(LEVELS), help="Only lines of this level or above.")] = "debug",
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only lines of this run.")] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Print the logs of the service, the agent and the gateway of this home, by time.

    They are read from the home, so the service need not run. The log of a run's script is `runyard runs logs RUN`.
    Several of --service, --agent, --gateway and --access can be given; without any, all but --access.

    \b
    Examples:
      runyard logs -f
      runyard logs --level warning
      runyard logs --run mnist_1700000000_1a2b3c4d
      runyard logs --access -n 20 -o json
    """
    if level not in LEVELS:
        raise CommandError(f"--level is {level!r}.", hint=f"Give {', '.join(LEVELS)}.", exit_code=Exit.USAGE)
    if os.environ.get("RUNYARD_URL"):
        raise CommandError(
            "RUNYARD_URL names a service elsewhere, and its logs are read on its own machine.",
            hint="Run this there with its RUNYARD_HOME, or unset RUNYARD_URL.",
        )
    wanted = {"service": service, "agent": agent, "gateway": gateway, "access": access}
    names = [name for name, is_wanted in wanted.items() if is_wanted] or ["service", "agent", "gateway"]
    tails = [ProcessLogTail(home(), name) for name in names]
    matching = list(deque(filter_lines(merge_tails(tails), level=level, run=run), maxlen=lines or None))
    for line in matching:
        _print(line, output)
    if not matching and not follow:
        _print_no_match(run)
    while follow:
        for line in filter_lines((line for tail in tails for line in tail.fresh()), level=level, run=run):
            _print(line, output)
        sys.stdout.flush()
        time.sleep(POLL_SECONDS)


def _print_no_match(run: str | None) -> None:
    if run is None:
        print(f"No log line of {home()} matches.", file=sys.stderr)
        return
    raise CommandError(
        f"No log line of {home()} matches for run {run!r}.",
        hint="`runyard runs list` shows the runs; the log of a run's script is `runyard runs logs RUN`.",
        exit_code=Exit.NOT_FOUND,
    )


def _print(line: dict[str, Any], output: Format) -> None:
    if output is Format.JSON:
        print_json_line(line)
        return
    if "route" in line:
        words = "{method} {route} {status} {milliseconds} ms {caller}".format_map({"milliseconds": "-", **line})
        line = {**line, "message": words}
    print(format_line(line), end="")
