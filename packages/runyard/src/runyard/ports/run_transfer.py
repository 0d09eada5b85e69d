from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from runyard.model.assets import Asset
from runyard.model.runs import RunId

Rows = dict[str, Any]
"""All rows of one run except its metrics, as JSON."""


class RunTransfer(Protocol):
    """Exports and imports all rows of one run as JSON."""

    def rows(self, run_id: RunId) -> Rows:
        """All rows except metrics. Raises NotFound."""

    def metric_lines(self, run_id: RunId) -> Iterator[bytes]:
        """Metrics with all points, one JSON line each."""

    def checked(self, given: Any) -> Rows:
        """Foreign rows after a check of every value. Raises InvalidArgument."""

    def insert(self, workspace: str, given: Rows, metric_lines: Iterable[bytes]) -> None:
        """Store an ended run completely or not at all. Raises AlreadyExists, InvalidArgument."""

    def insert_model(self, model: Asset) -> None:
        """Store a model with its version and id; later versions continue from it. Raises Conflict."""
