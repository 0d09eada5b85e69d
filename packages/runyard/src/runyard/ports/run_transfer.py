from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from runyard.model.assets import Asset
from runyard.model.runs import RunId

Rows = dict[str, Any]
"""All rows of one run but its metrics, as JSON."""


class RunTransfer(Protocol):
    """All rows of one run, as JSON."""

    def rows(self, run_id: RunId) -> Rows:
        """All but its metrics. Raises NotFound."""

    def metric_lines(self, run_id: RunId) -> Iterator[bytes]:
        """Its metrics with all points, a JSON line each."""

    def checked(self, given: Any) -> Rows:
        """Rows from elsewhere with every value checked. Raises InvalidArgument."""

    def insert(self, workspace: str, given: Rows, metric_lines: Iterable[bytes]) -> None:
        """Store a run that has ended, or nothing. Raises AlreadyExists, InvalidArgument."""

    def insert_model(self, model: Asset) -> None:
        """Store a model with its version and id; later versions count on from it. Raises Conflict."""
