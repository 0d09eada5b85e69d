"""Names of actors and placement groups on a Ray cluster. They contain the service's id: two services never collide."""

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

NAMESPACE = "runyard"
_SERVICE_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class AllocationName:
    """Name of the placement group of one run."""

    service: str
    workspace: str
    cluster: str
    run_id: str

    def __str__(self) -> str:
        words = (self.service, self.workspace, self.cluster, self.run_id)
        # The name on Ray clusters, where allocations outlive the service.
        return "runyard/gang/" + "/".join(quote(word, safe="") for word in words)


def parse_allocation_name(text: str) -> AllocationName | None:
    """Parse the name of a placement group; None if it is not ours."""
    words = [unquote(word) for word in text.split("/")]
    return AllocationName(*words[2:]) if len(words) == 6 and words[:2] == ["runyard", "gang"] else None


def agent_name(service: str, version: str, node_id: str) -> str:
    """Name of a node's actor. It contains the version: a running actor keeps the code that it started with."""
    return f"runyard/agent/{service}/{version}/{node_id}"


def holder_name(allocation: str, bundle: int) -> str:
    return f"{allocation}/gpus/{bundle}"


def service_id(home: Path) -> str:
    """Random id of the service, made once for each home. Safe when two processes ask at the same time."""
    place = home / "service-id"
    while True:
        try:
            found = place.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            found = ""
        if _SERVICE_ID.fullmatch(found):
            return found
        beside = home / f".service-id.{os.getpid()}.{secrets.token_hex(4)}"
        beside.write_text(secrets.token_hex(6), encoding="ascii")
        try:
            place.unlink(missing_ok=True) if found else None
            os.link(beside, place)
        except FileExistsError:
            continue
        finally:
            beside.unlink(missing_ok=True)
