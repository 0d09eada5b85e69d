"""Rendezvous of the nodes of an attempt: each reports that it is ready, and gets the facts of all when all are."""

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from runyard.client import quoted, retry_while_unavailable
from runyard.core.errors import Json
from runyard.core.records.launch_plan import LaunchPlan
from runyard.node.service_client import connect_to_service

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, _GROWTH = 0.02, 0.5, 1.4
_PAUSE_WITHOUT_PROCESSES_SECONDS = 0.1
"""For a node that only waits for a launcher elsewhere to ask for its daemon."""
_PORT = re.compile(r"<port:(\d+):([^<>]+)>")
_ANSWER_SECONDS = 30.0


def await_roster(home: Path, plan: LaunchPlan, facts: Json) -> Json:
    """Report `ready` until all nodes are. Returns `{"roster": [facts by node]}`, or `{"end_as"}` if the run is to stop.

    Blocks for as long as it takes: for a forked child.
    """
    client = connect_to_service(home, plan.token, silence_seconds=_ANSWER_SECONDS)
    address, body = f"/attempts/{quoted(plan.attempt_id)}/report", {"state": "ready", "node": plan.node, **facts}
    pause = _FIRST_PAUSE_SECONDS if plan.here.processes else _PAUSE_WITHOUT_PROCESSES_SECONDS
    while True:
        answer = retry_while_unavailable(lambda: client.post(address, body))
        if answer.get("cancel"):
            return {"end_as": answer.get("end_as") or "canceled"}
        if answer.get("roster"):
            return {"roster": answer["roster"]}
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE_SECONDS)


def fill_in_ports(text: str, roster: Sequence[Json]) -> str:
    """Replace each `<port:NODE:NAME>` by the port that the node chose. One that no node chose stays: it may be the
    user's own text."""

    def port(found: re.Match[str]) -> str:
        node, name = int(found[1]), found[2]
        ports: Mapping[str, int] = roster[node].get("ports") or {} if node < len(roster) else {}
        return str(ports[name]) if name in ports else found[0]

    return _PORT.sub(port, text) if "<port:" in text else text
