"""Client for one web service of a workspace."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from runyard.cli.connection import Service, connect, quoted

Record = dict[str, Any]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As `runyard services list` shows it.")]

LONGEST_WAIT_SECONDS = 30


class WebService:
    """Calls the routes of one web service. Methods raise ServiceError with code not_found where it does not exist."""

    def __init__(self, service: Service, workspace: str | None, name: str) -> None:
        self.name, self._service = name, service
        self.root = f"/workspaces/{quoted(service.workspace(workspace))}"
        self.address = f"{self.root}/services/{quoted(name)}"

    def record(self) -> Record:
        return self._get("")

    def metrics(self) -> Record:
        return self._get("/metrics")

    def keys(self) -> Record:
        return self._get("/keys")

    def new_key(self, which: str) -> Record:
        keys: Record = self._service.post(f"{self.address}/keys", {"key": which, "value": None})
        return keys

    def token(self) -> str:
        return str(self._service.post(f"{self.address}/token")["access_token"])

    def lineages(self, record: Record) -> list[Record]:
        """Lineage of each of its models, in their order."""
        return [model_lineage(self._service, self.root, *model.rsplit(":", 1)) for model in record["models"]]

    def delete(self) -> None:
        self._service.delete(self.address)

    def deployment(self, record: Record) -> Iterator[Record]:
        """Yield the record now and after each change, until its deployment has ended."""
        yield record
        while not has_ended(record):
            record = self._get("/wait", version=record["version"], timeout=LONGEST_WAIT_SECONDS)
            yield record

    def log(self, **where: Any) -> tuple[bytes, int]:
        """Piece of the log (the last `lines`, or from `offset` on) and the offset behind it."""
        return self._service.read_piece(f"{self.address}/logs", **where)

    def _get(self, below: str, **query: Any) -> Record:
        answer: Record = self._service.get(self.address + below, **query)
        return answer


def open_web_service(name: str, workspace: str | None) -> WebService:
    return WebService(connect(), workspace, name)


def model_lineage(service: Service, root: str, name: str, version: str | int) -> Record:
    """Origin and deployments of one version of a model."""
    lineage: Record = service.get(f"{root}/models/{quoted(name)}/lineage", version=version)
    return lineage


def has_ended(record: Record) -> bool:
    return record["wanted_revision"] in (record["revision"], record["failed_revision"])


def has_failed(record: Record) -> bool:
    """Whether its newest deployment failed; an older one may still answer."""
    return bool(record["failed_revision"] == record["wanted_revision"])
