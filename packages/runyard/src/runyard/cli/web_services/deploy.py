"""`runyard deploy`: deploy a registered model and show the progress of the deployment."""

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from json import dumps
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from runyard.cli.connection import Service, ServiceError, WorkspaceOption, connect, open_workspace, quoted
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_fields, print_json
from runyard.cli.web_services.client import Record, WebService, has_ended, has_failed
from runyard.cli.web_services.request import sample_from
from runyard.core.records.web_services import ServiceType

MAX_NAME = 32


class TypeWord(StrEnum):
    """Service types as options of the command."""

    ACI = "aci"
    AKS = "aks"
    LOCAL = "local"


def deploy(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL[:VERSION]...", help="A registered model; the newest version if unsaid."),
    ],
    name: Annotated[str | None, typer.Option(help="Of the web service; else made from the model's.")] = None,
    kind: Annotated[TypeWord, typer.Option("--type", help="Its defaults: aks asks for keys, the others do not.")] = (
        TypeWord.ACI
    ),
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Its port of localhost; else a free one.")] = None,
    entry_script: Annotated[
        str | None, typer.Option(metavar="FILE", help="The script with init() and run(); a path below --source.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", exists=True, file_okay=False, help="All of it comes with the script."),
    ] = None,
    conda_file: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="The script's packages.")
    ] = None,
    environment: Annotated[
        str | None, typer.Option(metavar="NAME[:VERSION]", help="A registered environment for the script.")
    ] = None,
    cpu_cores: Annotated[float | None, typer.Option(min=0.01, help="Threads of the model's libraries.")] = None,
    memory_gb: Annotated[float | None, typer.Option(min=0.01, help="A worker that holds more is replaced.")] = None,
    replicas: Annotated[int | None, typer.Option(min=1, help="Worker processes.")] = None,
    auth: Annotated[bool | None, typer.Option("--auth/--no-auth", help="Ask for a key, or not.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Put it in place of one that has the name.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until it answers.")] = False,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Deploy a registered model as a web service of this machine.

    A model that was registered with its framework (TensorFlow, ScikitLearn, Onnx, PyTorch, Chainer) needs no code. Any
    other needs --entry-script: a Python file with `init()`, which loads the model from the folder AZUREML_MODEL_DIR,
    and `run(body)`, which answers. The command returns once the web service answers; exit code 1 where it does not
    come up, with the cause and the script's traceback.

    \b
    Examples:
      runyard deploy digits
      runyard deploy digits:3 --name digits-test --port 8890
      runyard deploy digits --entry-script score.py --source ./scoring --conda-file ./scoring/conda.yml
      runyard deploy digits --type aks --replicas 2 --overwrite
    """
    if entry_script is None and (source or conda_file or environment):
        raise CommandError("--source, --conda-file and --environment go with --entry-script.", exit_code=Exit.USAGE)
    if conda_file and environment:
        raise CommandError("--conda-file and --environment exclude one another.", exit_code=Exit.USAGE)
    service = connect()
    web_service = WebService(service, workspace, name or service_name_for(models[0]))
    given = {
        "port": port,
        "cpu_cores": cpu_cores,
        "memory_gb": memory_gb,
        "num_replicas": replicas,
        "auth_enabled": auth,
    }
    body = {
        "name": web_service.name,
        "type": ServiceType[kind.name],
        "models": [versioned(service, web_service.root, model) for model in models],
        "inference": inference_of(workspace, entry_script, source, conda_file, environment) if entry_script else None,
        "config": {name: value for name, value in given.items() if value is not None},
        "overwrite": overwrite,
        "submitter": submitter(),
    }
    try:
        record = service.post(f"{web_service.root}/services", body)
    except ServiceError as error:
        if error.code != "already_exists":
            raise
        raise CommandError(error.problem, hint="Pass --overwrite to replace it, or another --name.") from None
    show_deployment(web_service, record, output, waits=not no_wait)


def service_name_for(model: str) -> str:
    """Name of a web service, derived from the model's name."""
    plain = re.sub(r"[^a-z0-9]+", "-", model.partition(":")[0].lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"model-{plain}".rstrip("-")
    return plain[:MAX_NAME].rstrip("-").ljust(3, "0")


def versioned(service: Service, root: str, model: str) -> str:
    """NAME:VERSION of a model; the newest version where none is given. Raises CommandError."""
    name, colon, version = model.partition(":")
    if colon and not version.isdecimal():
        raise CommandError(f"{model!r} has no version behind its colon.", hint="Write NAME:3.", exit_code=Exit.USAGE)
    found = service.get(f"{root}/assets/models/{quoted(name)}", **({"version": int(version)} if colon else {}))
    return f"{found['name']}:{found['version']}"


def inference_of(
    workspace: str | None, entry_script: str, source: Path | None, conda_file: Path | None, environment: str | None
) -> Any:
    """Scoring script as a request body, made and checked by the SDK."""
    from azureml.core import Environment
    from azureml.core.model import InferenceConfig

    with open_workspace(workspace) as opened:
        wanted = None
        if conda_file:
            wanted = Environment.from_conda_specification(conda_file.stem, str(conda_file))
        elif environment:
            named, _, version = environment.partition(":")
            wanted = Environment.get(opened, named, version or None)
        folder = str(source) if source else None
        return InferenceConfig(entry_script, source_directory=folder, environment=wanted)._to_wire(opened)


def submitter() -> Any:
    from runyard_sdk.submitter import submitter_facts

    return submitter_facts()


STEPS = {
    "files": "staging code and models",
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
        print_usage(record)
    else:
        print(f"{service.name} is on its way: runyard services show {service.name}", file=sys.stderr)
        print_usage(record)
    if has_failed(record):
        raise typer.Exit(Exit.NO)


def print_usage(record: Record) -> None:
    for note in record["notes"]:
        print(f"note: {note}", file=sys.stderr)
    print_fields({"scoring uri": record["scoring_uri"] or "", "swagger uri": record["swagger_uri"] or ""})
    if record["scoring_uri"]:
        print(f"\n{curl_line(record)}")


def curl_line(record: Record) -> str:
    """A curl command to paste. A subcommand prints the key, so that it stays out of the shell's history."""
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
def _progress(*, quiet: bool) -> Iterator["_StepPrinter"]:
    printer = _StepPrinter(quiet=quiet)
    if quiet or not sys.stderr.isatty():
        yield printer
        return
    from rich.console import Console

    with Console(stderr=True).status("") as shown:
        printer.spinner = lambda words: shown.update(words)
        yield printer


class _StepPrinter:
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
