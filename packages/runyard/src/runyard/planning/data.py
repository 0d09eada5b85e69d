"""Data of a run: what its definition names, as items that a node can stage, and checks that it exists."""

from collections.abc import Iterator, Sequence

from runyard.core.definitions.data import LINK, relative_path
from runyard.core.definitions.run import RunDefinition
from runyard.errors import InvalidArgument
from runyard.model.plan import DataItem

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


def settable(name: str) -> bool:
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
    return tuple(variable for variable in dict.fromkeys(wanted) if settable(variable))
