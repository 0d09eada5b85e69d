"""The one place where the command line meets the SDK's client, which finds the service or starts it."""

import os
import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runyard.cli.exits import Exit, Refusal
from runyard.cli.wording import names_in_words
from runyard_sdk.errors import NotFound
from runyard_sdk.errors import RunyardError as ServiceError
from runyard_sdk.errors import ServiceUnavailable as Unreachable

if TYPE_CHECKING:
    from runyard.model.data import StoreAccess

__all__ = ["Service", "ServiceError", "Unreachable", "WorkspaceOption", "connect", "home", "quoted"]

DEFAULT_WORKSPACE = "default"
LOG_PAGE_BYTES = 1 << 20
RUN_PAGE = 1000

WorkspaceOption = Annotated[
    str | None,
    typer.Option("--workspace", "-w", help="Else the one of the nearest config.json, else the local default."),
]


def _maker(given: str | None) -> str | None:
    if given is None or given == "owner" or re.fullmatch("run:.+", given):
        return given
    raise typer.BadParameter(f"give `owner`, or `run:` and the id of a run, not {given[:80]!r}.")


MakerOption = Annotated[
    str | None,
    typer.Option("--created-by", metavar="WHO", callback=_maker, help="Only what `owner` or `run:ID` has made."),
]


def home() -> Path:
    """The home folder, which need not exist. Refuses one that is not this user's."""
    from runyard_sdk.home import home_folder, why_not_ours

    refusal = why_not_ours(home_folder())
    if refusal:
        raise Refusal(refusal[0], hint=refusal[1])
    return Path(home_folder())


def quoted(part: str, *, keep: str = "") -> str:
    """A name or path as a part of an address; characters in `keep` stay as they are."""
    from urllib.parse import quote

    if not part:  # "/runs/" would be another route
        raise Refusal("The name is empty.", hint="The `list` commands show the names.", exit_code=Exit.USAGE)
    return quote(part, safe=keep)


def connect() -> "Service":
    from runyard_sdk.client import Client

    return Service(Client())


class Service:
    """Routes below /api/v1 as calls. An error answer raises ServiceError, no answer at all Unreachable."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def is_elsewhere(self) -> bool:
        """Whether it may be on another machine: RUNYARD_URL names it, and it is not the one of this home."""
        from runyard_sdk.discovery import running

        used, own = self._client.transport.service, running()
        return bool(used.fixed) and (own is None or own["url"].rstrip("/") != used.url)

    @property
    def token(self) -> str:
        return str(self._client.transport.service.token)

    def reached_from_here(self, access: "StoreAccess") -> "StoreAccess":
        """With the address and the token by which this process speaks to it."""
        used, ca = self._client.transport.service, os.environ.get("RUNYARD_CA")
        options = {**access.options, "url": used.url, "ca": os.path.abspath(ca) if ca else ""}
        return replace(access, options=options, secrets={"token": used.token})

    def get(self, path: str, **query: Any) -> Any:
        return self._client.get(path, **query)

    def read(self, path: str, **query: Any) -> bytes:
        """An answer that is no JSON."""
        content: bytes = self._client.read(path, **query)
        return content

    def read_piece(self, path: str, **query: Any) -> tuple[bytes, int]:
        """Bytes of a file that grows, and the offset behind them."""
        from urllib.parse import urlencode

        with self._client.open(f"{path}?{urlencode(query)}" if query else path) as answer:
            content: bytes = answer.read()
            return content, int(answer.getheader("X-Runyard-Offset", 0))

    def post(self, path: str, body: Any = None) -> Any:
        return self._client.post(path, body)

    def post_again(self, path: str, body: Any = None) -> Any:
        """A POST that the service recognises when it comes twice: repeated when the connection breaks."""
        return self._client.post_again(path, body)

    def put(self, path: str, body: Any) -> Any:
        return self._client.put(path, body)

    def delete(self, path: str) -> None:
        self._client.delete(path)

    def save(self, path: str, target: Path, told: Callable[[int], None] | None = None) -> None:
        """Write an answer's bytes to a file: beside it first, then renamed. `told` hears how many bytes came."""
        self._client.download(path, str(target), told=told)

    def upload(self, path: str, source: Path, told: Callable[[int], None] | None = None) -> Any:
        """PUT the bytes of a file. `told` hears how many bytes went."""
        return self._client.upload(path, str(source), told=told)

    def log_pages(self, path: str) -> Iterator[bytes]:
        """All of a run's log, however long, a page at a time. A page that breaks off is asked for again."""
        offset = 0
        while page := self.read(path, offset=offset, limit=LOG_PAGE_BYTES):
            yield page
            offset += len(page)
            if len(page) < LOG_PAGE_BYTES:
                break

    def log_texts(self, path: str) -> Iterator[str]:
        """The same as text; what is no UTF-8 is replaced."""
        decoder = getincrementaldecoder("utf-8")("replace")
        for page in self.log_pages(path):
            yield decoder.decode(page)
        if rest := decoder.decode(b"", final=True):
            yield rest

    def print_log(self, path: str) -> None:
        """The bytes of a run's log to stdout, unchanged."""
        sys.stdout.flush()
        for page in self.log_pages(path):
            sys.stdout.buffer.write(page)
        sys.stdout.buffer.flush()

    def follow(self, run_id: str) -> Iterator[tuple[Any, ...]]:
        """What a run does as it does it, across restarts of the service; see `runyard_sdk.follow`."""
        from runyard_sdk.follow import follow

        yield from follow(self._client, run_id)

    def follow_ranks(self, run_id: str, rank: int | None) -> Iterator[tuple[Any, ...]]:
        """The same for the logs of all ranks at once, or of one."""
        from runyard_sdk.follow import follow_ranks

        yield from follow_ranks(self._client, run_id, rank)

    def workspace(self, given: str | None) -> str:
        """The name to use: as given, else that of the config file that holds here, else the local default's."""
        from runyard_sdk.configfile import find, read

        config = None if given else find(str(Path.cwd()))
        return str(read(config)[2]) if config else given or DEFAULT_WORKSPACE

    def runs(self, workspace: str | None, limit: int, **query: Any) -> tuple[list[dict[str, Any]], bool]:
        """At most `limit` runs, asked for in pages, and whether there are more."""
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
        """Refusal that names the experiments there are, where this one is not among them."""
        known = [one["name"] for one in self.listed(workspace, "experiments")]
        if name not in known:
            raise Refusal(
                f"There is no experiment {name!r} in workspace {self.workspace(workspace)!r}. "
                f"There are: {names_in_words(known)}.",
                exit_code=Exit.NOT_FOUND,
            )

    def _may_be_missing(self, workspace: str | None) -> bool:
        """Whether it is the local default workspace, which is not there before the SDK first used it."""
        return not workspace and self.workspace(workspace) == DEFAULT_WORKSPACE

    def listed(self, workspace: str | None, kind: str, **query: Any) -> list[dict[str, Any]]:
        """What a workspace has of a kind; what of the query is None is not asked. The local default workspace has
        nothing before the SDK first used it."""
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
