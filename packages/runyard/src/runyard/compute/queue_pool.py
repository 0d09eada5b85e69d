from collections.abc import Sequence

from runyard.core.definitions.run import RunDefinition
from runyard.model.assets import Asset
from runyard.model.nodes import Gang, Node
from runyard.model.runs import RunId, RunRecord


class QueuePool:
    """Pool of a cluster with a queue of its own: it has no nodes."""

    def check(self, cluster: Asset, definition: RunDefinition) -> None:
        pass

    def hold(self, cluster: Asset, run: RunRecord) -> Gang:
        return Gang(waits_for=f"'{cluster.name}' has a queue of its own.")

    def held_by(self, cluster: Asset, run: RunRecord) -> Gang:
        return Gang()

    def release(self, run_id: RunId) -> None:
        pass

    def resize(self, clusters: Sequence[Asset], living: set[RunId]) -> None:
        pass

    def gpus_promised(self, cluster: Asset) -> int | None:
        return int((cluster.body.get("resources") or {}).get("gpu") or 0)

    def list(self, cluster: Asset) -> Sequence[Node]:
        return ()
