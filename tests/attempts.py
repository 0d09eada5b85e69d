"""Attempts of runs that launch nothing, as a controller would have begun them."""

import json
from pathlib import Path

from runyard.access.tokens import Tokens
from runyard.core.records.runs import AttemptId, RunId, attempt_id
from runyard.core.settings import Settings
from runyard.storage.sql.stores import open_stores
from tests.wire_client import WireClient


def begin_attempt(home: Path | str, run_id: str, number: int = 1) -> AttemptId:
    """Written to the service's database behind its back: only before the service has met another attempt of it.

    The service then writes the run itself, finds that its version has changed, and reads it.
    """
    begun = attempt_id(RunId(run_id), number)
    stores = open_stores(Settings(Path(home)).store_url)
    try:
        stores.runs.update(RunId(run_id), ticket=begun, attempt=number)
    finally:
        stores.close()
    facts = json.loads((Path(home) / "service.json").read_text())
    WireClient(facts["url"], facts["token"]).patch(f"/runs/{run_id}", {"description": f"Attempt {number} has begun."})
    return begun


def node_of(owner: WireClient, run_id: str) -> WireClient:
    """A node of the run's first attempt, which is begun by that."""
    begun = begin_attempt(owner.get("/health")["home"], run_id)
    return owner.with_token(Tokens(owner.token).node_token(begun))


def script_of(owner: WireClient, run_id: str) -> WireClient:
    """The script of the run's first attempt, which is begun by that."""
    begun = begin_attempt(owner.get("/health")["home"], run_id)
    return owner.with_token(Tokens(owner.token).run_token(begun))
