import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from runyard.cli.connection import Service, WorkspaceOption, connect, quoted
from runyard.cli.exits import Exit, Refusal
from runyard.cli.output import Format, FormatOption, print_json
from runyard.cli.v1 import opened_workspace

if TYPE_CHECKING:
    from runyard.compute.fields import Option
    from runyard.compute.registry import AnyKind


class AttachGroup(TyperGroup):
    """Group of `attach` commands. Imports compute kinds only when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_attachable())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        kind = _attachable().get(cmd_name)
        if kind is None:
            return None
        app = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
        app.command(kind.name, help=kind.attach_help)(_attacher(kind))
        command = get_command(app)
        command.name = kind.name
        return command


def _attachable() -> "dict[str, AnyKind]":
    from runyard.compute.registry import ComputeKinds

    return {name: kind for name, kind in ComputeKinds().load_all().items() if kind.attached_as}


def _attacher(kind: "AnyKind") -> Callable[..., None]:
    """Command function: the kind's own fields as parameters, then those of every kind."""
    from runyard.compute.fields import options_of

    options = options_of(kind.target)

    def attach_kind(**given: Any) -> None:
        own = {one.name: value for one in options if (value := given.pop(one.name)) is not None}
        attach(kind, own, **given)

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


def attach(
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
            raise Refusal(problem, exit_code=Exit.USAGE)
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
    with opened_workspace(workspace):
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
        raise Refusal(
            f"The compute target {name!r} is there already, as {present}.",
            hint="Choose another name, or remove that one first.",
        )
    made: dict[str, Any] = service.post(f"{root}/assets/computes", {"name": name, "body": body})
    return {**made, "status": service.get(f"{root}/computes/{quoted(name)}/status")}
