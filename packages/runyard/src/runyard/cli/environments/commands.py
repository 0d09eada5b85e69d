"""`runyard environments`: environments built on this machine, and package sources of workspaces."""

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

import typer

from runyard.cli.connection import WorkspaceOption, connect, home, quoted
from runyard.cli.display import creator_of, local_time, size_in_words
from runyard.cli.environments.build import build
from runyard.cli.environments.settings import settings
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_fields, print_heading, print_json, print_table
from runyard.core.run_folders import environments_root
from runyard.environments.builder import prune_environments
from runyard.environments.cache import CachedEnvironment, list_built
from runyard.environments.compiled_wheels import CompiledWheels
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.lockfile import LockFile

app = typer.Typer(no_args_is_help=True, help="Environments: what is built, building one, where packages come from.")
app.command()(build)
app.command()(settings)

SHOWN_PACKAGES = 4


@app.command("list")
def list_environments(output: FormatOption = Format.TEXT) -> None:
    """List the environments that are built on this machine, the last used first."""
    found = _built()
    if output is Format.JSON:
        print_json([asdict(built) for built in found])
        return
    headings = ["environment", "python", "kind", "size", "used", "packages"]
    rows = [[one.key, one.python, _kind(one), size_in_words(one.bytes), _used(one), _summary(one)] for one in found]
    print_table(headings, rows, nothing="No environments are built.")


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="ENVIRONMENT", help="As `runyard environments list` shows it, or a registered name."),
    ],
    version: Annotated[
        int | None, typer.Option("--version", "-v", min=1, help="Of a registered one; else the newest.")
    ] = None,
    lock: Annotated[bool, typer.Option("--lock", help="Print the lock alone: exact versions and hashes.")] = False,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show one environment: what it is made of, its packages, its image.

    \b
    Examples:
      runyard environments show 3f5d0c9a7be24d6188f0c2d1
      runyard environments show 3f5d0c9a7be24d6188f0c2d1 --lock > requirements.lock
      runyard environments show training -v 3
    """
    built = next((one for one in _built() if one.key == name), None)
    if built is None and lock:
        raise CommandError(
            f"No environment {name!r} is built on this machine.",
            hint="`runyard environments list` shows those that are.",
            exit_code=Exit.NOT_FOUND,
        )
    if built is None:
        _show_registered(name, version, workspace, output)
    elif lock:
        print(_lock_of(built.key), end="")
    else:
        _show_built(built, output)


@app.command()
def prune(
    older_than_days: Annotated[float, typer.Option("--older-than", min=0, help="Days since last use.")] = 30.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Remove environments and compiled wheels that no run has used lately. They are built again when one needs them."""
    root, age = environments_root(home()), timedelta(days=older_than_days)
    removed = prune_environments(root, older_than=age)
    removed += [f"wheels/{key}" for key in CompiledWheels(root, {}).prune(age)]
    if output is Format.JSON:
        print_json(removed)
        return
    print_table(["removed"], [[key] for key in removed], nothing="Nothing to remove.")


def _built() -> list[CachedEnvironment]:
    """Environments built on this machine, the last used first."""
    return list(reversed(list_built(environments_root(home()))))


def _show_built(built: CachedEnvironment, output: Format) -> None:
    lock = _lock_of(built.key)
    if output is Format.JSON:
        print_json({**asdict(built), "lock": lock})
        return
    facts = {"environment": built.key, "kind": _kind(built), "python": built.python, "image": built.image}
    print_fields({**facts, "size": size_in_words(built.bytes), "used": _used(built), **_head_of(lock)})
    print_heading("packages")
    rows = [line.partition("==")[::2] for line in built.packages]
    print_table(["package", "version"], [list(row) for row in rows], nothing="No packages.")


def _show_registered(name: str, version: int | None, workspace: str | None, output: Format) -> None:
    service = connect()
    root = f"/workspaces/{quoted(service.workspace(workspace))}"
    query = {} if version is None else {"version": version}
    found = service.get(f"{root}/assets/environments/{quoted(name)}", **query)
    if output is Format.JSON:
        print_json(found)
        return
    body = found["body"]
    docker, python = body.get("docker") or {}, body.get("python") or {}
    names = {"environment": found["name"], "version": str(found["version"])}
    chosen = {"image": docker.get("baseImage") or "", "dockerfile": "its own" if docker.get("baseDockerfile") else ""}
    managed = "its own, nothing is installed" if python.get("userManagedDependencies") else ""
    made = {"created": local_time(found["created_at"]), "created by": creator_of(found)}
    print_fields({**names, **made, **chosen, "packages": managed})
    rows = [] if managed else _asked_for(python.get("condaDependencies") or {})
    if rows:
        print_heading("asked for")
        print_table(["package", "from"], rows, nothing="")


def _asked_for(conda: dict[str, Any]) -> list[list[str]]:
    rows = []
    for entry in conda.get("dependencies") or ():
        if isinstance(entry, dict):
            rows += [[str(line), "pip"] for line in entry.get("pip") or ()]
        else:
            rows.append([str(entry), "conda"])
    return rows


def _lock_of(key: str) -> str:

    facts = EnvironmentFolder(environments_root(home()), key).facts()
    return facts.lock if facts else ""


def _head_of(lock: str) -> dict[str, str]:
    """Platform and base that the head of the lock names."""
    parsed = LockFile.parse(lock)
    return {"platform": parsed.platform, "base": parsed.base}


def _kind(built: CachedEnvironment) -> str:
    return "image" if built.image else "virtual environment"


def _used(built: CachedEnvironment) -> str:
    return "in use" if built.in_use else f"{built.last_used_at.astimezone():%Y-%m-%d %H:%M}"


def _summary(built: CachedEnvironment) -> str:
    more = len(built.packages) - SHOWN_PACKAGES
    return " ".join(built.packages[:SHOWN_PACKAGES]) + (f" and {more} more" if more > 0 else "")
