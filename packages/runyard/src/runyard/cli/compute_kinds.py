"""`runyard compute kinds`, `attach` and `detach`.

`attach` has one command for each installed compute kind whose clusters can be attached.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from runyard.cli.compute import NameArgument, target_path
from runyard.cli.connection import Service, WorkspaceOption, connect, open_workspace, quoted
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_json, print_table
from runyard.compute.fields import Option, options_of, read_body
from runyard.compute.registry import AnyKind, ComputeKinds


class AttachGroup(TyperGroup):
    """One command for each compute kind; kinds are loaded when the commands are listed or called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_attachable())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        kind = _attachable().get(cmd_name)
        if kind is None:
            return None
        app = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
        app.command(kind.name, help=kind.attach_help)(_attach_command(kind))
        command = get_command(app)
        command.name = kind.name
        return command


attach_app = typer.Typer(cls=AttachGroup, no_args_is_help=True, help="Attach a cluster that is there already.")
attach_app.callback()(lambda: None)  # typer refuses a group without commands or a callback


def kinds(output: FormatOption = Format.TEXT) -> None:
    """List the compute kinds that are installed here, and what is wrong with those that were left out."""
    known = ComputeKinds()
    rows: list[dict[str, Any]] = [
        {"kind": name, "title": kind.title, "state": "ok", "disk": kind.disk.value, "queues_itself": kind.queues_itself}
        for name, kind in known.load_all().items()
    ]
    rows += [{"kind": name, "state": "left out", "why": why} for name, why in known.left_out().items()]
    if output is Format.JSON:
        print_json(rows)
        return
    shown = [[row["kind"], row.get("title", ""), row["state"], row.get("why") or _traits(row)] for row in rows]
    print_table(["kind", "title", "state", "about"], shown, nothing="No compute kinds: install runyard again.")


def detach(name: NameArgument, workspace: WorkspaceOption = None, output: FormatOption = Format.TEXT) -> None:
    """Forget an attached cluster. The cluster itself goes on; a target that runs still use is refused."""
    service = connect()
    address = target_path(service, workspace, name)
    body = service.get(address)["body"]
    if not body.get("is_attached"):
        raise CommandError(
            f"{name} was created, not attached.",
            hint=f"Delete it from Python: ComputeTarget(workspace, {name!r}).delete()",
        )
    service.delete(address)
    if output is Format.JSON:
        print_json({"detached": name})
    else:
        print(f"{name} detached")


def _traits(kind: dict[str, Any]) -> str:
    files = {"service": "this machine", "shared": "nodes share a file system", "own": "nodes have disks of their own"}
    return ", ".join([files[kind["disk"]], *(["has a queue of its own"] if kind["queues_itself"] else [])])


def _attachable() -> dict[str, AnyKind]:
    return {name: kind for name, kind in ComputeKinds().load_all().items() if kind.attached_as}


def _attach_command(kind: AnyKind) -> Callable[..., None]:
    """Command function: the kind's own fields as parameters, then those of every kind."""
    options = options_of(kind.target)

    def attach_kind(**given: Any) -> None:
        own = {one.name: value for one in options if (value := given.pop(one.name)) is not None}
        attach_target(kind, own, **given)

    first, *common = inspect.signature(_common).parameters.values()
    parameters = [first, *(_parameter(one) for one in options), *common]
    attach_kind.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    attach_kind.__annotations__ = {one.name: one.annotation for one in parameters}
    return attach_kind


def _parameter(one: Option) -> inspect.Parameter:
    default = False if one.default in (None, "") else str(one.default).lower()
    flag = typer.Option("--" + one.name.replace("_", "-"), help=one.help, show_default=default)
    kind, wanted = inspect.Parameter.KEYWORD_ONLY, one.type
    if one.is_required:
        return inspect.Parameter(one.name, kind, annotation=Annotated[wanted, flag])
    return inspect.Parameter(one.name, kind, default=None, annotation=Annotated[wanted | None, flag])


def _common(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    cpu: Annotated[float | None, typer.Option(help="CPUs of one node of a run; otherwise 1.")] = None,
    gpu: Annotated[int | None, typer.Option(help="GPUs of one node of a run; otherwise none.")] = None,
    memory_gb: Annotated[
        float | None, typer.Option(help="Memory of one node of a run, in GB; otherwise not set.")
    ] = None,
    min_nodes: Annotated[int, typer.Option(help="Nodes to keep while no run needs them.")] = 0,
    max_nodes: Annotated[int, typer.Option(help="Nodes that runs may have together at most.")] = 64,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Options of every kind; only the signature is used."""


def attach_target(
    kind: AnyKind,
    own: dict[str, Any],
    *,
    name: str,
    min_nodes: int,
    max_nodes: int,
    workspace: str | None,
    output: Format,
    **resources: float | None,
) -> None:
    """Register the cluster as a compute target, or change the one of this name. Raises CommandError."""
    wanted = {each: amount for each, amount in resources.items() if amount is not None}
    for each, amount in wanted.items():
        if amount < 0 or (amount == 0 and each != "gpu"):
            problem = f"{each} must be a number above 0 for each node, got {amount:g}."
            raise CommandError(problem, exit_code=Exit.USAGE)
    shown = kind.shown(read_body(kind.target, own))
    body = {
        "type": kind.attached_as,
        "engine": kind.name,
        "address": own.pop("address", None),
        "settings": own or None,
        "resources": wanted,
        "min_nodes": min_nodes,
        "max_nodes": max_nodes,
        "is_attached": True,
    }
    with open_workspace(workspace):
        service = connect()
        made = _stored(service, f"/workspaces/{quoted(service.workspace(workspace))}", name, body)
    if output is Format.JSON:
        print_json(made)
        return
    print(f"{made['name']}: {shown}, at most {max_nodes} nodes for all its runs")


def _stored(service: Service, root: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Create the target, or change an existing one of the same type; return it with its status."""
    listed = service.get(f"{root}/assets/computes")["assets"]
    present = next((asset["body"].get("type") for asset in listed if asset["name"] == name), None)
    if present not in (None, body["type"]):
        raise CommandError(
            f"The compute target {name!r} is there already, as {present}.",
            hint="Choose another name, or remove that one first.",
        )
    made: dict[str, Any] = service.post(f"{root}/assets/computes", {"name": name, "body": body})
    return {**made, "status": service.get(f"{root}/computes/{quoted(name)}/status")}
