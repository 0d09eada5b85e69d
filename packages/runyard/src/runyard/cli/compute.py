"""Compute targets on the command line."""

from typing import Annotated, Any

import typer

from runyard.cli.connection import Service, WorkspaceOption, connect, quoted
from runyard.cli.exits import Refusal
from runyard.cli.output import Format, FormatOption, print_fields, print_heading, print_json, print_table
from runyard.cli.wording import local_time

app = typer.Typer(no_args_is_help=True, help="Compute targets and their nodes.")
attach = typer.Typer(no_args_is_help=True, help="Attach a cluster that is there already.")
app.add_typer(attach, name="attach")

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
NODE_HEADINGS = ["node", "address", "state", "since", "run"]


@app.command("list")
def list_compute(workspace: WorkspaceOption = None, output: FormatOption = Format.TEXT) -> None:
    """List compute targets with what their nodes do now."""
    service = connect()
    found = service.listed(workspace, "assets/computes")
    root = f"/workspaces/{quoted(service.workspace(workspace))}"
    for target in found:
        target["status"] = service.get(f"{root}/computes/{quoted(target['name'])}/status")
    if output is Format.JSON:
        print_json(found)
        return
    rows = [[t["name"], t["body"]["type"], _size(t), _range(t), _counted(t["status"])] for t in found]
    headings = ["compute", "type", "size", "nodes", "now"]
    print_table(headings, rows, nothing="No compute targets; 'local' is always there.")


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
    place = {
        "compute": target["name"],
        "type": body["type"],
        "address": body.get("address") or "",
        "size": _size(target),
    }
    scale = {"nodes": _range(target), "now": _counted(status), "allocation": status["allocation_state"]}
    print_fields({**place, **scale, "description": body.get("description") or ""})
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


@attach.command("ray")
def attach_ray(
    name: NameArgument,
    address: Annotated[str, typer.Option(help="HOST:PORT of the Ray head, as `ray start --head` prints it.")],
    cpu: Annotated[float | None, typer.Option(help="CPUs of one node of a run; otherwise 1.")] = None,
    gpu: Annotated[int | None, typer.Option(help="GPUs of one node of a run; otherwise none.")] = None,
    memory_gb: Annotated[
        float | None, typer.Option(help="Memory of one node of a run, in GB; otherwise not set.")
    ] = None,
    min_nodes: Annotated[int, typer.Option(help="Nodes that Ray's autoscaler is asked to keep.")] = 0,
    max_nodes: Annotated[int, typer.Option(help="Nodes that runs may have together at most.")] = 64,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Attach a Ray cluster, so that runs can be sent to it by this name.

    Ray's Python on every node needs: pip install "runyard[ray]". Where the nodes are other machines, they must reach
    this service: runyard serve --listen HOST:PORT --tls-cert FILE --tls-key FILE. The address is tried at once.

    \b
    Examples:
      runyard compute attach ray trainers --address 10.0.0.5:6379 --cpu 8
      runyard compute attach ray gpus --address 10.0.0.5:6379 --gpu 1 --memory-gb 32 --max-nodes 4
    """
    from azureml.core.compute import ComputeTarget, RayCompute
    from runyard.cli.v1 import opened_workspace

    with opened_workspace(workspace) as opened:
        configuration = RayCompute.attach_configuration(
            address, cpu=cpu, gpu=gpu, memory_gb=memory_gb, min_nodes=min_nodes, max_nodes=max_nodes
        )
        made = ComputeTarget.attach(opened, name, configuration)
        status = made.get_status().serialize()
    if output is Format.JSON:
        print_json({**made.serialize(), "status": status})
    else:
        print(f"{made.name}: Ray at {made.address}, at most {made.scale_settings.maximum_node_count} nodes a run")


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
    """A VM size, or what an attached cluster gives each node of a run."""
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
