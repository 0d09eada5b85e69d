from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runyard.cli.connection import DEFAULT_WORKSPACE, connect
from runyard.cli.exits import BY_ERROR_CODE, Exit, Refusal


@contextmanager
def opened_workspace(name: str | None) -> Iterator[Any]:
    """The workspace as an SDK object. An SDK exception inside the block becomes a Refusal with the same message."""
    from azureml.core import Workspace
    from azureml.exceptions import AzureMLException

    wanted = connect().workspace(name)
    try:
        is_default = wanted == DEFAULT_WORKSPACE
        yield Workspace.create(wanted, exist_ok=True, show_output=False) if is_default else Workspace.get(wanted)
    except AzureMLException as error:
        code = getattr(error, "code", "") or getattr(error.inner_exception, "code", "invalid_argument")
        raise Refusal(error.message, exit_code=BY_ERROR_CODE.get(code, Exit.NO)) from None
