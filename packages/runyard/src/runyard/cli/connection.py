"""Connection to the service through the SDK's client, which finds or starts it. Only this module uses that client."""

import os
import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runyard.cli.display import names_in_words
from runyard.cli.exits import BY_ERROR_CODE, CommandError, Exit
from runyard_sdk.errors import NotFound
from runyard_sdk.errors import RunyardError as ServiceError
from runyard_sdk.errors import ServiceUnavailable as Unreachable

if TYPE_CHECKING:
    from runyard.core.records.data import StoreAccess

__all__ = ["Service", "ServiceError", "Unreachable", "WorkspaceOption", "connect", "home", "quoted"]

DEFAULT_WORKSPACE = "default"
LOG_PAGE_BYTES = 1 << 20
RUN_PAGE = 1000

WorkspaceOption = Annotated[
    str | None,
    typer.Option("--workspace", "-w", help="Else the one of the nearest config.json, else the local default."),
]


def _creator(given: str | None) -> str | None:
    if given is None or given == "owner" or re.fullmatch("run:.+", given):
        return given
    raise typer.BadParameter(f"give `owner`, or `run:` and the id of a run, not {given[:80]!r}.")


CreatorOption = Annotated[
    str | None,
    typer.Option("--created-by", metavar="WHO", callback=_creator, help="Only what `owner` or `run:ID` has made."),
]


def home() -> Path:
    """The home folder, which need not exist. Raises CommandError for another user's."""
    from runyard_sdk.home import home_folder, why_not_ours

    refusal = why_not_ours(home_folder())
    if refusal:
        raise CommandError(refusal[0], hint=refusal[1])
    return Path(home_folder())


def quoted(part: str, *, keep: str = "") -> str:
    """Percent-encode a name or path, except characters in `keep`. Raises CommandError for an empty one."""
    from urllib.parse import quote

    if not part:  # an empty name would call another route
        raise CommandError("The name is empty.", hint="The `list` commands show the names.", exit_code=Exit.USAGE)
    return quote(part, safe=keep)


def connect() -> "Service":
    from runyard_sdk.client import Client

    return Service(Client())


class Service:
    """Calls routes below /api/v1. Raises ServiceError for an error response, Unreachable without a response."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def is_elsewhere(self) -> bool:
        """Whether it may be on another machine: RUNYARD_URL is set and names no service of this home."""
        from runyard_sdk.discovery import running

        used, own = self._client.transport.service, running()
        return bool(used.fixed) and (own is None or own["url"].rstrip("/") != used.url)

    @property
    def token(self) -> str:
        return str(self._client.transport.service.token)

    def reached_from_here(self, access: "StoreAccess") -> "StoreAccess":
        """Store access with the address and token that this process uses."""
        used, ca = self._client.transport.service, os.environ.get("RUNYARD_CA")
        options = {**access.options, "url": used.url, "ca": os.path.abspath(ca) if ca else ""}
        return replace(access, options=options, secrets={"token": used.token})

    def get(self, path: str, **query: Any) -> Any:
        return self._client.get(path, **query)

    def read(self, path: str, **query: Any) -> bytes:
        """Body of a response that is no JSON."""
        content: bytes = self._client.read(path, **query)
        return content

    def read_piece(self, path: str, **query: Any) -> tuple[bytes, int]:
        """Bytes of a growing file, and the offset behind them."""
        from urllib.parse import urlencode

        with self._client.open(f"{path}?{urlencode(query)}" if query else path) as answer:
            content: bytes = answer.read()
            return content, int(answer.getheader("X-Runyard-Offset", 0))

    def post(self, path: str, body: Any = None) -> Any:
        return self._client.post(path, body)

    def post_again(self, path: str, body: Any = None) -> Any:
        """Idempotent POST: repeated when the connection breaks."""
        return self._client.post_again(path, body)

    def put(self, path: str, body: Any) -> Any:
        return self._client.put(path, body)

    def delete(self, path: str) -> None:
        self._client.delete(path)

    def save(self, path: str, target: Path, on_bytes: Callable[[int], None] | None = None) -> None:
        """Download to a file, atomically. `on_bytes` is called with the number of bytes of each piece."""
        self._client.download(path, str(target), on_bytes=on_bytes)

    def upload(self, path: str, source: Path, on_bytes: Callable[[int], None] | None = None) -> Any:
        """PUT the bytes of a file. `on_bytes` is called with the number of bytes of each piece."""
        return self._client.upload(path, str(source), on_bytes=on_bytes)

    def log_pages(self, path: str) -> Iterator[bytes]:
        """Yield a run's log in pages. A page whose connection breaks is requested again."""
        offset = 0
        while page := self.read(path, offset=offset, limit=LOG_PAGE_BYTES):
            yield page
            offset += len(page)
            if len(page) < LOG_PAGE_BYTES:
                break

    def log_texts(self, path: str) -> Iterator[str]:
        """Yield a run's log as text; invalid UTF-8 is replaced."""
        decoder = getincrementaldecoder("utf-8")("replace")
        for page in self.log_pages(path):
            yield decoder.decode(page)
        if rest := decoder.decode(b"", final=True):
            yield rest

    def print_log(self, path: str) -> None:
        """Write the bytes of a run's log to stdout, unchanged."""
        sys.stdout.flush()
        for page in self.log_pages(path):
            sys.stdout.buffer.write(page)
        sys.stdout.buffer.flush()

    def follow(self, run_id: str) -> Iterator[tuple[Any, ...]]:
        """Yield events of a run until it ends, across restarts of the service; see `runyard_sdk.follow`."""
        from runyard_sdk.follow import follow

        yield from follow(self._client, run_id)

    def follow_ranks(self, run_id: str, rank: int | None) -> Iterator[tuple[Any, ...]]:
        """The same for the logs of all ranks, or of one."""
        from runyard_sdk.follow import follow_ranks

        yield from follow_ranks(self._client, run_id, rank)

    def workspace(self, given: str | None) -> str:
        """Name of the workspace: as given, else from the nearest config.json, else the local default."""
        from runyard_sdk.configfile import find, read

        config = None if given else find(str(Path.cwd()))
        return str(read(config)[2]) if config else given or DEFAULT_WORKSPACE

    def runs(self, workspace: str | None, limit: int, **query: Any) -> tuple[list[dict[str, Any]], bool]:
        """At most `limit` runs, and whether there are more."""
        found: list[dict[str, Any]] = []
        path, before = f"/workspaces/{quoted(self.workspace(workspace))}/runs", None
        while len(found) <= limit:
            wanted = min(RUN_PAGE, limit + 1 - len(found))
            try:
                page = self.get(path, limit=wanted, before=before, **query)
            except NotFound:
                if not self._may_be_missing(workspace):
                    raise
                break
            found += page["runs"]
            before = page["next"]
            if before is None:
                break
        return found[:limit], len(found) > limit

    def require_experiment(self, workspace: str | None, name: str) -> None:
        """Raise Refusal that lists the experiments where this one does not exist."""
        known = [one["name"] for one in self.listed(workspace, "experiments")]
        if name not in known:
            raise CommandError(
                f"There is no experiment {name!r} in workspace {self.workspace(workspace)!r}. "
                f"There are: {names_in_words(known)}.",
                exit_code=Exit.NOT_FOUND,
            )

    def _may_be_missing(self, workspace: str | None) -> bool:
        """Whether it is the local default workspace, which does not exist before the SDK first uses it."""
        return not workspace and self.workspace(workspace) == DEFAULT_WORKSPACE

    def listed(self, workspace: str | None, kind: str, **query: Any) -> list[dict[str, Any]]:
        """List one kind of thing in a workspace; query entries that are None are left out. Empty for the local default
        workspace before its first use."""
        name = self.workspace(workspace)
        try:
            asked = {key: value for key, value in query.items() if value is not None}
            answer = self.get(f"/workspaces/{quoted(name)}/{kind}", **asked)
        except NotFound:
            if not self._may_be_missing(workspace):
                raise
            return []
        found: list[dict[str, Any]] = answer["assets" if kind.startswith("assets/") else kind]
        return found


@contextmanager
def open_workspace(name: str | None) -> Iterator[Any]:
    """The workspace as an SDK object. An SDK exception inside the block becomes a Refusal with the same message."""
    from azureml.core import Workspace
    from azureml.exceptions import AzureMLException

    wanted = connect().workspace(name)
    try:
        is_default = wanted == DEFAULT_WORKSPACE
        yield Workspace.create(wanted, exist_ok=True, show_output=False) if is_default else Workspace.get(wanted)
    except AzureMLException as error:
        code = getattr(error, "code", "") or getattr(error.inner_exception, "code", "invalid_argument")
        raise CommandError(error.message, exit_code=BY_ERROR_CODE.get(code, Exit.NO)) from None
