"""`runyard compute`: compute targets and their nodes."""

from typing import Annotated, Any

import typer

from runyard.cli.connection import CreatorOption, Service, WorkspaceOption, connect, quoted
from runyard.cli.display import creator_of, local_time
from runyard.cli.lazy_group import LazyCommand, lazy_group
from runyard.cli.output import Format, FormatOption, print_fields, print_heading, print_json, print_table

# Apart: to look at targets needs no compute kinds, and a broken plug-in must not keep anybody from it.
WITH_KINDS = {
    "kinds": LazyCommand(
        "runyard.cli.compute_kinds:kinds",
        "List the compute kinds that are installed here, and what is wrong with those that were left out.",
    ),
    "detach": LazyCommand(
        "runyard.cli.compute_kinds:detach",
        "Forget an attached cluster. The cluster itself goes on; a target that runs still use is refused.",
    ),
    "attach": LazyCommand("runyard.cli.compute_kinds:attach_app", "Attach a cluster that is there already."),
}
app = typer.Typer(cls=lazy_group(WITH_KINDS), no_args_is_help=True, help="Compute targets and their nodes.")

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
    target = service.get(target_path(service, workspace, name))
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


def target_path(service: Service, workspace: str | None, name: str) -> str:
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
