"""Data of a run: what its definition names, as items that a node can stage, and checks that it exists."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runyard.core.definitions.run import RunDefinition
from runyard.core.definitions.run_data import LINK, relative_path
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.ports.stores import AssetStore
from runyard.core.records.assets import AssetKind
from runyard.core.records.data import DEFAULT_DATASTORE
from runyard.core.records.launch_plan import DataItem

# A dataset called "path" must not replace PATH. The arguments of the script still name its data.
NEVER_SET = frozenset(
    {"PATH", "HOME", "USER", "LANG", "TMPDIR", "TZ", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD"}
)
DEFAULT_DESTINATION = "dataset/{run-id}/{output-name}"
_REFERENCE_PREFIX = "AZUREML_DATAREFERENCE_"


def plan_data(definition: RunDefinition, run_id: str, default_datastore: str) -> tuple[DataItem, ...]:
    """Data items of a run. Does not check that the datasets and datastores exist.

    Raises InvalidArgument naming the input or output that is wrong.
    """
    items = (*data_references(definition), *_datasets(definition), *_outputs(definition, run_id, default_datastore))
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise InvalidArgument(
                f"Two inputs or outputs of the run are called {item.name!r}.", hint="Give each a name of its own."
            )
        seen.add(item.name)
    return items


def data_references(definition: RunDefinition) -> Sequence[DataItem]:
    """Data references of a run: paths on datastores."""
    return [
        DataItem(
            name=one.name,
            kind="reference",
            mode=one.mode,
            placeholder=f"$AZUREML_DATAREFERENCE_{one.name}",
            datastore=one.datastore,
            path=one.path,
            variables=_variables(one.name, one.variable),
            path_on_compute=one.path_on_compute,
            overwrite=one.overwrite,
        )
        for one in definition.references.values()
    ]


def is_settable_variable(name: str) -> bool:
    """Whether a script can get a variable of that name: not PATH and the like, and none of the platform's own."""
    is_ours = name.startswith(("AZUREML_", "RUNYARD_")) and not name.startswith(_REFERENCE_PREFIX)
    return name not in NEVER_SET and not is_ours


def _datasets(definition: RunDefinition) -> Iterator[DataItem]:
    for one in definition.data.values():
        if one.mode == "direct":
            continue
        yield DataItem(
            name=one.name,
            kind="dataset",
            mode=one.mode,
            placeholder=f"DatasetConsumptionConfig:{one.name}",
            dataset_id=one.dataset_id,
            variables=_variables(one.name, one.variable),
            path_on_compute=one.path_on_compute,
            overwrite=one.overwrite,
        )


def _outputs(definition: RunDefinition, run_id: str, default_datastore: str) -> Iterator[DataItem]:
    for one in definition.outputs.values():
        if one.mode == LINK:
            continue
        filled = (one.destination or DEFAULT_DESTINATION).replace("{run-id}", run_id).replace("{output-name}", one.name)
        yield DataItem(
            name=one.name,
            kind="output",
            mode=one.mode,
            placeholder=f"DatasetOutputConfig:{one.name}",
            datastore=one.datastore or default_datastore,
            path=relative_path(filled, f"destination of output {one.name!r}"),
            variables=_variables(one.name, one.variable),
            path_on_compute=one.path_on_compute,
            overwrite=one.overwrite,
            globs=one.globs,
        )


def _variables(name: str, chosen: str) -> tuple[str, ...]:
    wanted = (f"{_REFERENCE_PREFIX}{name}", chosen, chosen.upper(), name, name.upper())
    return tuple(variable for variable in dict.fromkeys(wanted) if is_settable_variable(variable))


def plan_run_data(assets: AssetStore, workspace: str, run_id: str, definition: RunDefinition) -> tuple[DataItem, ...]:
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
