"""`runyard deploy`: deploy a registered model and show the progress of the deployment."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from runyard.cli.connection import Service, ServiceError, WorkspaceOption, connect, quoted
from runyard.cli.exits import Exit, Refusal
from runyard.cli.output import Format, FormatOption
from runyard.cli.v1 import opened_workspace
from runyard.cli.web_services.deployment_progress import show_deployment
from runyard.cli.web_services.web_service import WebService
from runyard.model.web_services import ServiceType

LONGEST_NAME = 32


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
        raise Refusal("--source, --conda-file and --environment go with --entry-script.", exit_code=Exit.USAGE)
    if conda_file and environment:
        raise Refusal("--conda-file and --environment exclude one another.", exit_code=Exit.USAGE)
    service = connect()
    web_service = WebService(service, workspace, name or made_name(models[0]))
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
        raise Refusal(error.problem, hint="Pass --overwrite to replace it, or another --name.") from None
    show_deployment(web_service, record, output, waits=not no_wait)


def made_name(model: str) -> str:
    """Name of a web service, derived from the model's name."""
    plain = re.sub(r"[^a-z0-9]+", "-", model.partition(":")[0].lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"model-{plain}".rstrip("-")
    return plain[:LONGEST_NAME].rstrip("-").ljust(3, "0")


def versioned(service: Service, root: str, model: str) -> str:
    """NAME:VERSION of a model; the newest version where none is given. Raises Refusal."""
    name, colon, version = model.partition(":")
    if colon and not version.isdecimal():
        raise Refusal(f"{model!r} has no version behind its colon.", hint="Write NAME:3.", exit_code=Exit.USAGE)
    found = service.get(f"{root}/assets/models/{quoted(name)}", **({"version": int(version)} if colon else {}))
    return f"{found['name']}:{found['version']}"


def inference_of(
    workspace: str | None, entry_script: str, source: Path | None, conda_file: Path | None, environment: str | None
) -> Any:
    """Scoring script as a request body, made and checked by the SDK."""
    from azureml.core import Environment
    from azureml.core.model import InferenceConfig

    with opened_workspace(workspace) as opened:
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
