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
    """Print the progress and result of a deployment. Exits with code 1 where it failed."""
    began = monotonic()
    if waits:
        with _progress(quiet=output is Format.JSON) as show_step:
            for seen in service.deployment(record):
                show_step(seen["step"])
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
    """A curl command to paste. A subcommand prints the key, so that it stays out of the shell's history."""
    from json import dumps

    from runyard.cli.web_services.sample_input import sample_from

    sample = sample_from(record.get("schema") or {})
    body = '{"data": ...}' if sample is None else dumps(sample, ensure_ascii=False)
    key = (
        f'-H "Authorization: Bearer $(runyard services keys {record["name"]} --bare)" ' if _asks_for_key(record) else ""
    )
    header = "-H 'Content-Type: application/json'"
    # The service's certificate is for another host name, and often self-signed.
    trust = "--insecure " if record["config"].get("ssl_enabled") else ""
    return f"curl {trust}{shlex.quote(record['scoring_uri'])} {key}{header} -d {shlex.quote(body)}"


def print_failure(record: Record) -> None:
    """Print logs and traceback, then the cause as the last line."""
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
    printer = _Tell(quiet=quiet)
    if quiet or not sys.stderr.isatty():
        yield printer
        return
    from rich.console import Console

    with Console(stderr=True).status("") as shown:
        printer.spinner = lambda words: shown.update(words)
        yield printer


class _Tell:
    """Prints each step as it begins; in a terminal as a spinner."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._step = quiet, ""
        self.spinner = self._print

    def __call__(self, step: str) -> None:
        if step and step != self._step and not self._quiet:
            self._step = step
            self.spinner(f"{step}: {STEPS[step]}" if step in STEPS else step)

    def _print(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)
