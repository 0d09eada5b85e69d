from collections.abc import Iterable
from dataclasses import replace

import pytest

from runyard.core.errors import AlreadyExists, Conflict, NotFound
from runyard.core.ports.stores import AssetStore
from runyard.core.records.assets import Asset, AssetKind, Workspace
from runyard.testing.race import WRITERS, race
from runyard.testing.records import AT, a_workspace

MODEL = AssetKind.MODEL


class AssetStoreSuite:
    """Contract tests of AssetStore. Subclass it and supply `store`."""

    @pytest.fixture
    def store(self) -> AssetStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    def test_a_workspace_comes_back_and_its_name_is_taken(self, store: AssetStore) -> None:
        assert store.create_workspace(a_workspace()) == a_workspace()
        assert store.get_workspace("vision") == a_workspace()
        with pytest.raises(AlreadyExists, match="vision"):
            store.create_workspace(a_workspace())

    def test_one_of_eight_makers_of_a_workspace_wins(self, store: AssetStore) -> None:
        results = race(lambda _: store.create_workspace(a_workspace()))
        assert sum(isinstance(result, Workspace) for result in results) == 1

    def test_an_unknown_workspace_is_not_found_and_the_known_are_named(self, store: AssetStore) -> None:
        store.create_workspace(a_workspace("speech"))
        with pytest.raises(NotFound, match=r"vision.*speech"):
            store.get_workspace("vision")

    def test_deleting_a_workspace_takes_all_it_holds(self, store: AssetStore) -> None:
        for name in ("vision", "speech"):
            store.create_workspace(a_workspace(name))
            store.ensure_experiment(name, "mnist")
            store.add(name, MODEL, "m", {}, {})
        store.delete_workspace("vision")
        store.delete_workspace("vision")
        assert [workspace.name for workspace in store.list_workspaces()] == ["speech"]
        assert store.list_experiments("vision") == []
        assert store.list("vision", MODEL) == []
        assert len(store.list("speech", MODEL)) == 1

    def test_an_experiment_is_made_once(self, store: AssetStore) -> None:
        results = race(lambda _: store.ensure_experiment("vision", "mnist"))
        assert len({experiment.id for experiment in results}) == 1
        assert store.list_experiments("vision") == results[:1]

    def test_an_experiment_can_be_described_and_archived(self, store: AssetStore) -> None:
        made = store.ensure_experiment("vision", "mnist")
        changed = replace(made, description="digits", tags={"a": "b"}, archived_at=AT)
        store.update_experiment(changed)
        assert store.ensure_experiment("vision", "mnist") == changed
        with pytest.raises(NotFound, match="nothing"):
            store.update_experiment(replace(made, name="nothing"))

    def test_an_experiment_can_be_deleted_and_is_made_anew(self, store: AssetStore) -> None:
        made = store.ensure_experiment("vision", "mnist")
        store.ensure_experiment("speech", "mnist")
        store.delete_experiment("vision", "mnist")
        store.delete_experiment("vision", "mnist")
        assert store.list_experiments("vision") == []
        assert len(store.list_experiments("speech")) == 1
        assert store.ensure_experiment("vision", "mnist").id != made.id

    def test_versions_count_up_and_the_latest_is_found(self, store: AssetStore) -> None:
        first = store.add("vision", MODEL, "m", {"files": []}, {"a": "1"})
        second = store.add("vision", MODEL, "m", {"nested": {"x": [1]}}, {})
        assert (first.version, second.version) == (1, 2)
        assert store.get("vision", MODEL, "m") == second
        assert store.get("vision", MODEL, "m", 1) == first
        assert store.get_by_id("vision", MODEL, first.id) == first

    def test_eight_writers_get_eight_versions(self, store: AssetStore) -> None:
        results = race(lambda _: store.add("vision", MODEL, "m", {}, {}))
        assert sorted(asset.version for asset in results) == list(range(1, WRITERS + 1))

    def test_unknown_assets_are_not_found(self, store: AssetStore) -> None:
        asset = store.add("vision", MODEL, "m", {}, {})
        with pytest.raises(NotFound, match="other"):
            store.get("vision", MODEL, "other")
        with pytest.raises(NotFound, match="m:2"):
            store.get("vision", MODEL, "m", 2)
        with pytest.raises(NotFound, match="speech"):
            store.get("speech", MODEL, "m")
        with pytest.raises(NotFound, match=asset.id):
            store.get_by_id("vision", AssetKind.DATASET, asset.id)

    def test_a_listing_goes_by_name_newest_version_first(self, store: AssetStore) -> None:
        for name in ("b", "a", "B", "b", ""):
            store.add("vision", MODEL, name, {}, {})
        store.add("vision", AssetKind.DATASET, "a", {}, {})
        assert _names(store.list("vision", MODEL)) == [("B", 1), ("a", 1), ("b", 2), ("b", 1)]
        assert _names(store.list("vision", MODEL, latest_only=True)) == [("B", 1), ("a", 1), ("b", 2)]
        assert _names(store.list("vision", MODEL, "b")) == [("b", 2), ("b", 1)]

    def test_one_of_eight_changers_wins(self, store: AssetStore) -> None:
        seen = store.add("vision", MODEL, "m", {"n": 0}, {})
        results = race(lambda number: store.replace(seen, {"n": number}, {"writer": str(number)}))
        [winner] = [result for result in results if isinstance(result, Asset)]
        assert sum(isinstance(result, Conflict) for result in results) == WRITERS - 1
        assert store.get("vision", MODEL, "m") == winner
        assert winner.revision == 2

    def test_a_deleted_version_number_is_not_given_again(self, store: AssetStore) -> None:
        for _ in range(2):
            store.add("vision", MODEL, "m", {}, {})
        for _ in range(2):
            store.delete("vision", MODEL, "m", 2)
        assert _names(store.list("vision", MODEL)) == [("m", 1)]
        assert store.add("vision", MODEL, "m", {}, {}).version == 3

    def test_a_deleted_name_begins_anew(self, store: AssetStore) -> None:
        store.add("vision", MODEL, "m", {}, {})
        store.delete("vision", MODEL, "m")
        store.delete("vision", MODEL, "m")
        assert store.list("vision", MODEL) == []
        assert store.add("vision", MODEL, "m", {}, {}).version == 1


def _names(assets: Iterable[Asset]) -> list[tuple[str, int]]:
    return [(asset.name, asset.version) for asset in assets]
