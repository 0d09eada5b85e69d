"""The workspace as the SDK opens it, for commands that do what a script would do."""

from typing import Any

from runyard.cli.connection import DEFAULT_WORKSPACE, connect


def open_workspace(name: str | None) -> Any:
    from azureml.core import Workspace

    wanted = connect().workspace(name)
    return Workspace.create(wanted, exist_ok=True) if wanted == DEFAULT_WORKSPACE else Workspace.get(wanted)
