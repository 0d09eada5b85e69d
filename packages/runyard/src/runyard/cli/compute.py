"""`runyard compute`: compute targets and their nodes.

`attach` has one command for each installed compute kind whose clusters can be attached.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from runyard.cli.connection import CreatorOption, Service, WorkspaceOption, connect, open_workspace, quoted
from runyard.cli.display import creator_of, local_time
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_fields, print_heading, print_json, print_table

if TYPE_CHECKING:
    from runyard.compute.fields import Option
    from runyard.compute.registry import AnyKind


app = typer.Typer(no_args_is_help=True, help="Compute targets and their nodes.")


class AttachGroup(TyperGroup):
    """Group of `attach` commands. Imports compute kinds only when it is used."""

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
app.add_typer(attach_app, name="attach")

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
NODE_HEADINGS = ["node", "address", "state", "since", "run"]


@app.command("list")
def list_compute(
    workspace: WorkspaceOption = None, created_by: CreatorOption = None, output: FormatOption = Format.TEXT
) -> None:
    """List compute targets with what their nodes do now."""
    service = connect()
    found = service.listed(workspace, "assets/computes", created_by=created_by)
    root = f"/workspaces/{quoted(service.workspace(workspace))}"
    for target in found:
        target["status"] = service.get(f"{root}/computes/{quoted(target['name'])}/status")
    if output is Format.JSON:
        print_json(found)
        return
    rows = [[t["name"], t["body"]["type"], _size(t), _range(t), _counted(t["status"]), creator_of(t)] for t in found]
    headings = ["compute", "type", "size", "nodes", "now", "by"]
    nothing = "No compute targets; 'local' is always there." if created_by is None else f"{created_by} made none."
    print_table(headings, rows, nothing=nothing)


@app.command()
def show(name: NameArgument, workspace: WorkspaceOption = None, output: FormatOption = Format.TEXT) -> None:
    """Show one compute target: its bounds, where it is, and the state of each node.

    Example: runyard compute show gpu-cluster
    """
    service = connect()
    target = service.get(_asset(service, workspace, name))
    target["status"] = service.get(_address(service, workspace, name, "status"))
    target["nodes"] = service.get(_address(service, workspace, name, "nodes"))["nodes"]
    if output is Format.JSON:
        print_json(target)
        return
    body, status = target["body"], target["status"]
    where = {
        "compute": target["name"],
        "type": body["type"],
        "address": body.get("address") or "",
        "size": _size(target),
    }
    scale = {"nodes": _range(target), "now": _counted(status), "allocation": status["allocation_state"]}
    own = {name: str(value) for name, value in (body.get("settings") or {}).items()}
    print_fields(
        {**where, **own, **scale, "created by": creator_of(target), "description": body.get("description") or ""}
    )
    for error in status["errors"]:
        print(f"error: {error}")
    if target["nodes"]:
        print_heading("nodes")
        print_table(NODE_HEADINGS, _node_rows(target["nodes"]), nothing="")


@app.command()
def nodes(name: NameArgument, workspace: WorkspaceOption = None, output: FormatOption = Format.TEXT) -> None:
    """List the nodes that a compute target has at the moment, and the runs that hold them."""
    service = connect()
    found = service.get(_address(service, workspace, name, "nodes"))["nodes"]
    if output is Format.JSON:
        print_json(found)
    else:
        print_table(NODE_HEADINGS, _node_rows(found), nothing=f"{name} has no nodes now; a run brings them.")


@app.command()
def kinds(output: FormatOption = Format.TEXT) -> None:
    """List the compute kinds that are installed here, and what is wrong with those that were left out."""
    from runyard.compute.registry import ComputeKinds

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


@app.command()
def detach(name: NameArgument, workspace: WorkspaceOption = None, output: FormatOption = Format.TEXT) -> None:
    """Forget an attached cluster. The cluster itself goes on; a target that runs still use is refused."""
    service = connect()
    address = _asset(service, workspace, name)
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


def _asset(service: Service, workspace: str | None, name: str) -> str:
    return f"/workspaces/{quoted(service.workspace(workspace))}/assets/computes/{quoted(name)}"


def _address(service: Service, workspace: str | None, name: str, what: str) -> str:
    return f"/workspaces/{quoted(service.workspace(workspace))}/computes/{quoted(name)}/{what}"


def _size(target: dict[str, Any]) -> str:
    """VM size, or the resources of one node of an attached cluster."""
    resources = target["body"].get("resources") or {}
    named = [f"{amount:g} {name.upper()}" for name in ("cpu", "gpu") if (amount := resources.get(name))]
    if memory := resources.get("memory_gb"):
        named.append(f"{memory:g} GB")
    return ", ".join(named) or target["body"].get("vm_size") or ""


def _range(target: dict[str, Any]) -> str:
    return f"{target['body'].get('min_nodes') or 0}..{target['body'].get('max_nodes') or 1}"


def _counted(status: dict[str, Any]) -> str:
    counted = [f"{count} {state}" for state, count in status["counts"].items() if count]
    return ", ".join(counted) or "none"


def _node_rows(found: list[dict[str, Any]]) -> list[list[str]]:
    return [[n["name"], n["address"], n["state"], local_time(n.get("since")), n.get("run_id") or ""] for n in found]


def _traits(kind: dict[str, Any]) -> str:
    files = {"service": "this machine", "shared": "nodes share a file system", "own": "nodes have disks of their own"}
    return ", ".join([files[kind["disk"]], *(["has a queue of its own"] if kind["queues_itself"] else [])])


def _attachable() -> "dict[str, AnyKind]":
    from runyard.compute.registry import ComputeKinds

    return {name: kind for name, kind in ComputeKinds().load_all().items() if kind.attached_as}


def _attach_command(kind: "AnyKind") -> Callable[..., None]:
    """Command function: the kind's own fields as parameters, then those of every kind."""
    from runyard.compute.fields import options_of

    options = options_of(kind.target)

    def attach_kind(**given: Any) -> None:
        own = {one.name: value for one in options if (value := given.pop(one.name)) is not None}
        attach_target(kind, own, **given)

    first, *common = inspect.signature(_common).parameters.values()
    parameters = [first, *(_parameter(one) for one in options), *common]
    attach_kind.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    attach_kind.__annotations__ = {one.name: one.annotation for one in parameters}
    return attach_kind


def _parameter(one: "Option") -> inspect.Parameter:
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
    kind: "AnyKind",
    own: dict[str, Any],
    *,
    name: str,
    min_nodes: int,
    max_nodes: int,
    workspace: str | None,
    output: Format,
    **resources: float | None,
) -> None:
    """Register the cluster as a compute target, or change the one of this name. Raises Refusal."""
    from runyard.compute.fields import read_body

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
