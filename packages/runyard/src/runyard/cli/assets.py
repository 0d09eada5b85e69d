from pathlib import Path
from typing import Annotated, Any

import typer

from runyard.cli.connection import CreatorOption, WorkspaceOption, connect, quoted
from runyard.cli.display import creator_of, local_time, size_in_words
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_fields, print_heading, print_json, print_table
from runyard.cli.web_services.client import model_lineage
from runyard.cli.web_services.profile import profile
from runyard.environments.lockfile import LockFile

models = typer.Typer(no_args_is_help=True, help="Registered models.")
experiments = typer.Typer(no_args_is_help=True, help="Experiments of a workspace.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
VersionOption = Annotated[int | None, typer.Option("--version", "-v", min=1, help="This version; else the newest.")]


@experiments.command("list")
def list_experiments(workspace: WorkspaceOption = None, output: FormatOption = Format.TEXT) -> None:
    """List the experiments of a workspace."""
    found = connect().listed(workspace, "experiments")
    if output is Format.JSON:
        print_json(found)
        return
    rows = [[e["name"], local_time(e["created_at"]), "archived" if e["archived_at"] else ""] for e in found]
    print_table(["experiment", "created", "state"], rows, nothing="No experiments.")


@models.command("list")
def list_models(
    workspace: WorkspaceOption = None,
    name: Annotated[str | None, typer.Option(help="Every version of this model.")] = None,
    created_by: CreatorOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """List models, the newest version of each; with --name all versions of one."""
    query: dict[str, Any] = {"name": name} if name else {"latest": 1}
    found = connect().listed(workspace, "assets/models", created_by=created_by, **query)
    if output is Format.JSON:
        print_json(found)
        return
    rows = [
        [m["name"], str(m["version"]), _size(m), local_time(m["created_at"]), creator_of(m), _origin(m)] for m in found
    ]
    print_table(["model", "version", "size", "created", "by", "run"], rows, nothing="No models.")


@models.command("show")
def show_model(
    name: NameArgument,
    version: VersionOption = None,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show one model: where it came from, where it is deployed, its tags and its files."""
    model = _model(name, version, workspace)
    service = connect()
    root = f"/workspaces/{quoted(service.workspace(workspace))}"
    lineage = model_lineage(service, root, model["name"], model["version"])
    if output is Format.JSON:
        print_json({**model, "lineage": lineage})
        return
    body = model["body"]
    framework = " ".join(filter(None, [body.get("framework"), body.get("framework_version")]))
    tags = ", ".join(f"{key}={value}" for key, value in model["tags"].items())
    fields = {"model": model["name"], "version": str(model["version"]), "created": local_time(model["created_at"])}
    fields["created by"] = creator_of(model)
    described = {"description": body.get("description") or "", "framework": framework, "tags": tags}
    print_fields({**fields, **described, "run": _origin(model)})
    _print_lineage(lineage)
    print_heading("files")
    rows = [[path, size_in_words(size)] for path, _, size, *_ in body["files"]]
    print_table(["file", "size"], rows, nothing="No files.")


def _print_lineage(lineage: dict[str, Any]) -> None:
    """Print the run and data that made the model, and the web services that serve it."""
    run = lineage["run"]
    if run:
        packages = LockFile.parse(run["lock"] or "").versions
        print_heading("made by")
        code = {"script": run["script"] or "", "code": f"snapshot {run['snapshot_id']}" if run["snapshot_id"] else ""}
        built = {"environment": f"{len(packages)} packages: {' '.join(packages[:4])} ..." if packages else ""}
        print_fields({"run": run["id"], "experiment": run["experiment"], **code, **built})
    if lineage["datasets"]:
        print_heading("data")
        rows = [[d["name"] or d["dataset_id"], str(d["version"]), d["use"], d["mode"]] for d in lineage["datasets"]]
        print_table(["dataset", "version", "use", "mode"], rows, nothing="")
    print_heading("deployed as")
    rows = [[one["name"], one["type"], one["state"]] for one in lineage["services"]]
    print_table(["service", "type", "state"], rows, nothing="Nothing. Deploy it: runyard deploy MODEL")


@models.command()
def download(
    name: NameArgument,
    version: VersionOption = None,
    workspace: WorkspaceOption = None,
    target: Annotated[Path, typer.Option("--target", "-t", file_okay=False, help="Folder to write into.")] = Path(),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Write a model's files below a folder.

    Example: runyard models download mnist --target ./model
    """
    service, model = connect(), _model(name, version, workspace)
    wanted = [(_inside(target, path), sha256) for path, sha256, *_ in model["body"]["files"]]
    taken = [str(path) for path, _ in wanted if path.exists()]
    if taken and not overwrite:
        raise CommandError(f"{taken[0]} is already there.", hint="Pass --overwrite, or another --target.")
    for path, sha256 in wanted:
        path.parent.mkdir(parents=True, exist_ok=True)
        service.save(f"/blobs/{sha256}", path)
    if output is Format.JSON:
        print_json([str(path) for path, _ in wanted])
    else:
        print("\n".join(str(path) for path, _ in wanted))


models.command()(profile)


def _model(name: str, version: int | None, workspace: str | None) -> dict[str, Any]:
    service = connect()
    query = {} if version is None else {"version": version}
    root = f"/workspaces/{quoted(service.workspace(workspace))}"
    model: dict[str, Any] = service.get(f"{root}/assets/models/{quoted(name)}", **query)
    return model


def _inside(target: Path, path: str) -> Path:
    root = target.resolve()
    file = (root / path).resolve()
    if not file.is_relative_to(root):
        raise CommandError(f"The model's file {path!r} would land outside {target}.", exit_code=Exit.NO)
    return file


def _size(model: dict[str, Any]) -> str:
    return size_in_words(sum(entry[2] for entry in model["body"].get("files", ())))


def _origin(model: dict[str, Any]) -> str:
    return model["body"].get("run_id") or ""
