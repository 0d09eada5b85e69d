"""`runyard datastores`: register and list datastores."""

import os
import sys
from typing import Annotated, Any

import typer

from runyard.cli.connection import CreatorOption, WorkspaceOption, connect, quoted
from runyard.cli.display import creator_of
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_fields, print_json, print_table
from runyard_sdk.errors import AlreadyExists

app = typer.Typer(no_args_is_help=True, help="Datastores: the places a workspace's data lies in.")

SECRETS = {
    "folder": (),
    "web": (),
    "s3": ("access_key_id", "secret_access_key", "session_token"),
    "azure_blob": ("account_key", "sas_token"),
    "azure_data_lake_gen2": ("client_secret",),
    "gcs": ("service_account_key",),
}
NameArgument = Annotated[str, typer.Argument(metavar="NAME")]


@app.command("list")
def list_datastores(
    workspace: WorkspaceOption = None, created_by: CreatorOption = None, output: FormatOption = Format.TEXT
) -> None:
    """List the datastores of a workspace."""
    found = connect().listed(workspace, "assets/datastores", latest=1, created_by=created_by)
    if output is Format.JSON:
        print_json(found)
        return
    rows = [
        [d["name"], d["body"]["kind"], _place(d), creator_of(d), "default" if d["body"].get("is_default") else ""]
        for d in found
    ]
    print_table(["datastore", "kind", "where", "by", ""], rows, nothing="No datastores.")


@app.command()
def show(name: NameArgument, workspace: WorkspaceOption = None, output: FormatOption = Format.TEXT) -> None:
    """Show one datastore's settings; credentials are never shown."""
    service = connect()
    datastore = service.get(f"/workspaces/{quoted(service.workspace(workspace))}/assets/datastores/{quoted(name)}")
    if output is Format.JSON:
        print_json(datastore)
        return
    body = datastore["body"]
    settings = {key: str(value) for key, value in (body.get("settings") or {}).items() if value}
    made = {"credentials": body["credential_type"], "created by": creator_of(datastore)}
    print_fields({"datastore": datastore["name"], "kind": body["kind"], **settings, **made})


@app.command()
def add(
    name: NameArgument,
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(SECRETS)}.")],
    settings: Annotated[
        list[str], typer.Argument(metavar="SETTING=VALUE", help="Such as bucket=pets region=eu-west-1.")
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Change the one of this name.")] = False,
    skip_validation: Annotated[bool, typer.Option("--skip-validation", help="Do not look whether it answers.")] = False,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Register a datastore.

    Credentials are read from variables of this shell, so that they stay out of its history: RUNYARD_ and the name in
    capitals, for example RUNYARD_SECRET_ACCESS_KEY.

    \b
    Examples:
      runyard datastores add scans folder folder=/data/scans
      runyard datastores add pets s3 bucket=pets region=eu-west-1 endpoint=https://minio.lan
      runyard datastores add lake azure_blob account_name=acme container_name=raw
    """
    if kind not in SECRETS:
        raise CommandError(f"There is no kind {kind!r}.", hint=f"Known: {', '.join(SECRETS)}.", exit_code=Exit.USAGE)
    service = connect()
    body = {
        "name": name,
        "kind": kind,
        "settings": dict(_setting(text) for text in settings),
        "credentials": _credentials(kind),
        "overwrite": overwrite,
        "skip_validation": skip_validation,
    }
    try:
        made = service.post(f"/workspaces/{quoted(service.workspace(workspace))}/datastores", body)
    except AlreadyExists as error:
        raise CommandError(error.problem, hint="Pass --overwrite to change it.") from None
    if output is Format.JSON:
        print_json(made)
    else:
        print(f"{made['name']}: {made['body']['kind']}, {_place(made)}")


@app.command()
def remove(name: NameArgument, workspace: WorkspaceOption = None) -> None:
    """Unregister a datastore. Its files stay where they are."""
    service = connect()
    address = f"/workspaces/{quoted(service.workspace(workspace))}/assets/datastores/{quoted(name)}"
    service.get(address)  # raises for a mistyped name; DELETE would be quiet
    service.delete(address)
    print(f"{name} is not a datastore any more; its files are untouched.", file=sys.stderr)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"{text!r} is no setting.", hint="Write it as name=value.", exit_code=Exit.USAGE)
    if any(name in secrets for secrets in SECRETS.values()):
        raise CommandError(
            f"{name} is a secret.", hint=f"Set it as the variable RUNYARD_{name.upper()}.", exit_code=Exit.USAGE
        )
    return name, value


def _credentials(kind: str) -> dict[str, str]:
    found = {name: os.environ.get(f"RUNYARD_{name.upper()}", "") for name in SECRETS[kind]}
    return {name: value for name, value in found.items() if value}


def _place(datastore: dict[str, Any]) -> str:
    settings = datastore["body"].get("settings") or {}
    named = ("folder", "address", "container_name", "filesystem", "bucket")
    container = next((str(settings[name]) for name in named if settings.get(name)), "the workspace's own")
    return "/".join(filter(None, (container, settings.get("prefix") or "")))
