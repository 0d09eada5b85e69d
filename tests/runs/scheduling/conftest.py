import sys
from typing import Any

import pytest

from tests.wire_client import WireClient

WAITS = "import os, time\nwhile not os.path.exists(os.environ['GO']): time.sleep(0.01)\n"


class Submitter:
    """Submits scripts over the wire, and waits for what becomes of them."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self._count = 0

    def submit(self, script: str, target: str = "local", *, parent_id: str = "", **definition: Any) -> str:
        self._count += 1
        run_id = f"{self.client.workspace}_{self._count}"
        sha256 = self.client.put_blob(script.encode())
        environment = {
            "python": {"userManagedDependencies": True, "interpreterPath": sys.executable},
            "environmentVariables": definition.pop("variables", {}),
        }
        body = {
            "run_id": run_id,
            "type": "azureml.scriptrun",
            "parent_id": parent_id,
            "snapshot": [["train.py", sha256, len(script), 0o644]],
            "definition": {
                "script": "train.py",
                "arguments": [],
                "target": target,
                "nodeCount": 1,
                "environment": environment,
                "runyard": {"cancel_grace_seconds": 0.5},
                **definition,
            },
        }
        self.client.post(f"{self.client.here}/experiments/moves/runs", body)
        return run_id

    def get(self, run_id: str) -> dict[str, Any]:
        return self.client.get(f"/runs/{run_id}")

    def wait_for(self, run_id: str, *statuses: str, turns: int = 20) -> dict[str, Any]:
        """The record once it has one of these statuses; the service answers as soon as the run changes."""
        run = self.get(run_id)
        for _ in range(turns):
            if run["status"] in statuses:
                return run
            run = self.client.get(f"/runs/{run_id}/wait?version={run['version']}&timeout=10")
        raise AssertionError(f"{run_id} is {run['status']} ({run['message']}), not one of {statuses}: {run['error']}")

    def ended(self, run_id: str) -> dict[str, Any]:
        return self.wait_for(run_id, "Completed", "Failed", "Canceled")

    def wait_for_output(self, run_id: str, words: str, *, ranks: int = 1) -> None:
        """Returns once the script has printed these words, on each of so many ranks."""
        heard: set[int] = set()
        for line in self.client.lines(f"/runs/{run_id}/stream{'?ranks=all' if ranks > 1 else ''}", timeout=60):
            if words in line.get("text", ""):
                heard.add(line.get("rank", 0))
            if len(heard) == ranks:
                return
        raise AssertionError(f"{run_id} ended without printing {words!r}: {self.get(run_id)}")

    def cancel(self, run_id: str) -> dict[str, Any]:
        return self.client.post(f"/runs/{run_id}/cancel")

    def statuses(self, run_id: str) -> list[str]:
        events = self.client.get(f"/runs/{run_id}/events")["events"]
        return [event["text"] for event in events if event["kind"] == "status"]

    def make_cluster(self, name: str, **sizes: int) -> None:
        body = {"type": "AmlCompute", "vm_size": "any", "min_nodes": 0, "max_nodes": 1, **sizes}
        self.client.post(f"{self.client.here}/assets/computes", {"name": name, "body": body})

    def nodes(self, name: str) -> list[dict[str, Any]]:
        return self.client.get(f"{self.client.here}/computes/{name}/nodes")["nodes"]


@pytest.fixture
def submitter(client: WireClient) -> Submitter:
    return Submitter(client)
