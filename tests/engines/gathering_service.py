from typing import Any

from tests.node.recording_service import RecordingService


class GatheringService(RecordingService):
    """Remembers, and tells the nodes of an attempt about one another once all are ready."""

    def __init__(self, home: Any) -> None:
        super().__init__(home)
        self._expected: dict[str, int] = {}
        self._ready: dict[str, dict[int, dict]] = {}

    def expect(self, attempt_id: str, node_count: int) -> None:
        self._expected[attempt_id] = node_count

    def _route(self, method: str, parts: list[str], query: dict[str, str], body: bytes) -> tuple[int, dict | bytes]:
        status, answer = super()._route(method, parts, query, body)
        if parts[:1] != ["attempts"] or parts[2:] != ["report"]:
            return status, answer
        attempt_id, report = parts[1], self.reports[-1]
        ready = self._ready.setdefault(attempt_id, {})
        if report["state"] == "ready":
            ready[report["node"]] = report
        is_complete = len(ready) == self._expected.get(attempt_id)
        return status, {**answer, "roster": [ready[node] for node in sorted(ready)] if is_complete else None}
