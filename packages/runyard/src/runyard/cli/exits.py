"""Exit codes of all commands, for scripts that call `runyard`; docs/cli.md lists them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import typer

from runyard.cli.display import error_in_words
from runyard.core.records.runs import RunStatus


class Exit(IntEnum):
    OK = 0
    NO = 1  # understood, but the answer is no: a failed run, a refused request
    USAGE = 2
    NOT_FOUND = 3
    NO_SERVICE = 4
    INTERRUPTED = 130


BY_ERROR_CODE = {"not_found": Exit.NOT_FOUND, "invalid_argument": Exit.USAGE}


class CommandError(Exception):
    """Error of a command: problem, hint and exit code."""

    def __init__(self, problem: str, *, hint: str = "", exit_code: Exit = Exit.NO) -> None:
        super().__init__(f"{problem} {hint}".strip())
        self.exit_code = exit_code


@contextmanager
def run_goes_on(run_id: str) -> Iterator[None]:
    """Turn Ctrl-C inside the block into two lines and exit code 130; the run itself goes on."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("\nInterrupted; the run goes on.", err=True)
        typer.echo(f"Follow it: runyard runs logs -f {run_id}; stop it: runyard runs cancel {run_id}", err=True)
        raise typer.Exit(Exit.INTERRUPTED) from None


def exit_as(run: Mapping[str, Any]) -> None:
    """Exit with the code of the run's status; return for a completed run."""
    if run["status"] != RunStatus.COMPLETED:
        if run["status"] == RunStatus.FAILED:
            typer.echo(f"Run {run['id']} failed: {error_in_words(run)}", err=True)
        raise typer.Exit(Exit.NO)
