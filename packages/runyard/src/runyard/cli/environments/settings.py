"""`runyard environments settings`: package sources of a workspace."""

import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from runyard.cli.connection import WorkspaceOption, connect, open_workspace, quoted
from runyard.cli.exits import CommandError, Exit
from runyard.cli.output import Format, FormatOption, print_fields, print_json
from runyard.core.records.environments import PackageSettings

DEFAULTS = PackageSettings()
NAMES = tuple(field.name for field in fields(PackageSettings))
VARIABLE = re.compile(r"\$\{(\w+)\}")
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def settings(
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Of a list, one NAME=VALUE for each entry.")
    ] = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", metavar="NAME", help="Put this one back; may be given again.")
    ] = None,
    workspace: WorkspaceOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show or change where the packages of a workspace come from.

    ${NAME} in a value stands for that variable of this shell: in single quotes a password stays out of its history.
    `ca_bundle` takes the name of a file. What docs/environments.md says of each setting holds for every environment
    that is built from then on.

    \b
    Examples:
      runyard environments settings
      runyard environments settings 'index_url=https://ada:${INDEX_PASSWORD}@packages.lan/simple' ca_bundle=lan.pem
      runyard environments settings find_links=/srv/wheels find_links=/srv/torch-cpu offline=true
      runyard environments settings without_engine=virtual-environment
      runyard environments settings --reset offline
    """
    wanted = _read(changes or []) | {_known(name): None for name in reset or ()}
    with open_workspace(workspace) as opened:
        address = f"/workspaces/{quoted(opened.name)}/packages"
    service = connect()
    shown = service.put(address, wanted) if wanted else service.get(address)
    if output is Format.JSON:
        print_json(shown)
    else:
        print_fields({name: _in_words(name, shown.get(name, getattr(DEFAULTS, name))) for name in NAMES})


def _read(changes: list[str]) -> dict[str, Any]:
    """Request body from NAME=VALUE words. Only list settings may be given several times. Raises CommandError."""
    wanted: dict[str, Any] = {}
    for text in changes:
        name, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"{text!r} is no setting.", hint="Write it as name=value.", exit_code=Exit.USAGE)
        default = getattr(DEFAULTS, _known(name))
        given = _filled(name, value)
        if isinstance(default, tuple):
            wanted.setdefault(name, []).append(given)
        elif isinstance(default, dict):
            wanted.setdefault(name, {}).update([_channel(given)])
        elif name in wanted:
            raise CommandError(f"{name} is given twice.", hint="It takes one value.", exit_code=Exit.USAGE)
        else:
            wanted[name] = _yes_or_no(name, given) if isinstance(default, bool) else given
    if "ca_bundle" in wanted:
        wanted["ca_bundle"] = _certificates(wanted["ca_bundle"])
    return wanted


def _known(name: str) -> str:
    if name not in NAMES:
        raise CommandError(f"There is no setting {name!r}.", hint=f"Known: {', '.join(NAMES)}.", exit_code=Exit.USAGE)
    return name


def _filled(name: str, value: str) -> str:
    """Replace ${NAME} by variables of the shell. Raises CommandError for one that is not set."""
    missing = [found for found in VARIABLE.findall(value) if found not in os.environ]
    if missing:
        raise CommandError(
            f"{name} names the variable {missing[0]}, which is not set.",
            hint=f"export {missing[0]}=... first.",
            exit_code=Exit.USAGE,
        )
    return VARIABLE.sub(lambda match: os.environ[match.group(1)], value)


def _channel(text: str) -> tuple[str, str]:
    name, equals, address = text.partition("=")
    if not equals or not address:
        hint = "Write conda_channels=conda-forge=https://mirror.lan/conda-forge."
        raise CommandError(f"conda_channels has {text!r}, which names no address.", hint=hint, exit_code=Exit.USAGE)
    return name, address


def _yes_or_no(name: str, text: str) -> bool:
    if text.lower() not in (*YES, *NO):
        raise CommandError(f"{name} is true or false, not {text!r}.", exit_code=Exit.USAGE)
    return text.lower() in YES


def _certificates(file: str) -> str:
    if not file:
        return ""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise CommandError(f"ca_bundle {file!r} cannot be read: {error}.", exit_code=Exit.USAGE) from None
    if "-----BEGIN CERTIFICATE-----" not in text:
        hint = "Give a file of certificates in PEM form."
        raise CommandError(f"ca_bundle {file!r} holds no certificate.", hint=hint, exit_code=Exit.USAGE)
    return text


def _in_words(name: str, value: Any) -> str:
    if name == "ca_bundle":
        count = str(value).count("-----BEGIN CERTIFICATE-----")
        return f"{count} certificate{'' if count == 1 else 's'}" if count else "-"
    if isinstance(value, dict):
        return ", ".join(f"{key}={address}" for key, address in value.items()) or "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(value) or "-" if isinstance(value, (list, tuple)) else str(value) or "-"
