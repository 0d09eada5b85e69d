"""`runyard compute`: compute targets and their nodes.

`attach` has one command for each installed compute kind whose clusters can be attached.
"""

from typing import Annotated, Any

import typer

from runyard.cli.compute_attach import AttachGroup
from runyard.cli.connection import MakerOption, Service, WorkspaceOption, connect, quoted
from runyard.cli.exits import Refusal
from runyard.cli.output import Format, FormatOption, print_fields, print_heading, print_json, print_table
from runyard.cli.wording import local_time, maker_of

app = typer.Typer(no_args_is_help=True, help="Compute targets and their nodes.")
attach = typer.Typer(cls=AttachGroup, no_args_is_help=True, help="Attach a cluster that is there already.")
attach.callback()(lambda: None)  # typer refuses a group without commands or a callback
app.add_typer(attach, name="attach")

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
NODE_HEADINGS = ["node", "address", "state", "since", "run"]


@app.command("list")
def list_compute(
    workspace: WorkspaceOption = None, created_by: MakerOption = None, output: FormatOption = Format.TEXT
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
    rows = [[t["name"], t["body"]["type"], _size(t), _range(t), _counted(t["status"]), maker_of(t)] for t in found]
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
        {**where, **own, **scale, "created by": maker_of(target), "description": body.get("description") or ""}
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
        raise Refusal(
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
