"""A deployment as it goes on, and how it ended, in words."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import typer

from runyard.cli.exits import Exit
from runyard.cli.output import Format, print_fields, print_json
from runyard.cli.web_services.web_service import Record, WebService, has_ended, has_failed

STEPS = {
    "files": "laying out code and models",
    "environment": "from the cache, or built",
    "init": "starting workers, loading the model",
}


def show_deployment(service: WebService, record: Record, output: Format, *, waits: bool) -> None:
    """Print what becomes of it. Ends the command with exit code 1 where it failed."""
    began = monotonic()
    if waits:
        with _progress(quiet=output is Format.JSON) as tell:
            for seen in service.deployment(record):
                tell(seen["step"])
                record = seen
    if output is Format.JSON:
        print_json(record)
    elif has_failed(record):
        print_failure(record)
    elif has_ended(record):
        print(f"{service.name} is {record['state']} after {monotonic() - began:.2f} s.", file=sys.stderr)
        print_how_to_ask(record)
    else:
        print(f"{service.name} is on its way: runyard services show {service.name}", file=sys.stderr)
        print_how_to_ask(record)
    if has_failed(record):
        raise typer.Exit(Exit.NO)


def print_how_to_ask(record: Record) -> None:
    for note in record["notes"]:
        print(f"note: {note}", file=sys.stderr)
    print_fields({"scoring uri": record["scoring_uri"] or "", "swagger uri": record["swagger_uri"] or ""})
    if record["scoring_uri"]:
        print(f"\n{curl_line(record)}")


def curl_line(record: Record) -> str:
    """What to paste into a shell. The key comes from a command: it stays out of the shell's history."""
    from json import dumps

    from runyard.cli.web_services.sample_input import sample_from

    sample = sample_from(record.get("schema") or {})
    body = '{"data": ...}' if sample is None else dumps(sample, ensure_ascii=False)
    key = (
        f'-H "Authorization: Bearer $(runyard services keys {record["name"]} --bare)" ' if _asks_for_key(record) else ""
    )
    header = "-H 'Content-Type: application/json'"
    # A certificate of its own is made for another name than that of this machine, and often issued by nobody.
    trust = "--insecure " if record["config"].get("ssl_enabled") else ""
    return f"curl {trust}{shlex.quote(record['scoring_uri'])} {key}{header} -d {shlex.quote(body)}"


def print_failure(record: Record) -> None:
    """The cause last, as every error of this program: what led to it stands above."""
    error = record["error"] or {}
    logs, traceback = ((error.get(part) or "").strip("\n") for part in ("logs", "traceback"))
    for text in (logs, "" if traceback in logs else traceback):
        if text:
            print(text, file=sys.stderr)
    step = f" at {error['step']}" if error.get("step") else ""
    words = " ".join(filter(None, [error.get("problem"), error.get("hint")]))
    print(f"Error: {record['name']} failed{step}: {words}", file=sys.stderr)
    if record["revision"]:
        print(f"Revision {record['revision']} goes on answering.", file=sys.stderr)


def _asks_for_key(record: Record) -> bool:
    return bool(record["auth_enabled"] or record["token_auth_enabled"])


@contextmanager
def _progress(*, quiet: bool) -> Iterator["_Tell"]:
    tell = _Tell(quiet=quiet)
    if quiet or not sys.stderr.isatty():
        yield tell
        return
    from rich.console import Console

    with Console(stderr=True).status("") as shown:
        tell.spinner = lambda words: shown.update(words)
        yield tell


class _Tell:
    """A line for each step as it begins; in a terminal the present one turns until the next."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._step = quiet, ""
        self.spinner = self._print

    def __call__(self, step: str) -> None:
        if step and step != self._step and not self._quiet:
            self._step = step
            self.spinner(f"{step}: {STEPS[step]}" if step in STEPS else step)

    def _print(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)
