from collections.abc import Iterable, Mapping
from typing import Any

from runyard.core.definitions.run import RunDefinition
from runyard.errors import NotFound
from runyard.model.assets import AssetKind
from runyard.model.data import DEFAULT_DATASTORE
from runyard.model.plan import DataItem
from runyard.planning.data import plan_data
from runyard.ports.stores import AssetStore


def planned_data(assets: AssetStore, workspace: str, run_id: str, definition: RunDefinition) -> tuple[DataItem, ...]:
    """Data items of a run, as `plan_data`, with the default datastore of the workspace."""
    default = _default_datastore(assets, workspace) if definition.outputs else DEFAULT_DATASTORE
    return plan_data(definition, run_id, default)


def _default_datastore(assets: AssetStore, workspace: str) -> str:
    for store in assets.list(workspace, AssetKind.DATASTORE):
        if store.body.get("is_default"):
            return store.name
    return DEFAULT_DATASTORE


def require_data(assets: AssetStore, workspace: str, items: Iterable[DataItem]) -> None:
    """Raise NotFound naming the first dataset or datastore that does not exist, and the input that names it."""
    for item in items:
        if item.dataset_id:
            require_dataset(assets, workspace, item.name, item.dataset_id)
        else:
            _require_datastore(assets, workspace, item)


def require_dataset(assets: AssetStore, workspace: str, input_name: str, dataset_id: str) -> None:
    try:
        assets.get_by_id(workspace, AssetKind.DATASET, dataset_id)
    except NotFound:
        raise NotFound(
            f"Data input {input_name!r} names the dataset {dataset_id!r}, which is not in workspace {workspace!r}.",
            hint="Was it unregistered? Make the dataset again and submit again.",
        ) from None


def packages_for_tables(assets: AssetStore, workspace: str, definition: RunDefinition) -> tuple[str, ...]:
    """Packages that a script needs to read its tabular inputs. Datasets that are gone are ignored."""
    packages: dict[str, None] = {}
    for one in definition.data.values():
        try:
            body = assets.get_by_id(workspace, AssetKind.DATASET, one.dataset_id).body
        except NotFound:
            continue
        if body.get("type") == "tabular":
            packages |= dict.fromkeys(("pandas", "pyarrow") if _is_parquet(body) else ("pandas",))
    return tuple(packages)


def _is_parquet(body: Mapping[str, Any]) -> bool:
    return bool((body.get("format") or {}).get("kind") == "parquet")


def _require_datastore(assets: AssetStore, workspace: str, item: DataItem) -> None:
    known = [store.name for store in assets.list(workspace, AssetKind.DATASTORE)]
    if item.datastore not in known:
        listed = ", ".join(f"'{name}'" for name in known)
        raise NotFound(f"There is no datastore {item.datastore!r}, which {item.name!r} names. Known: {listed}.")
