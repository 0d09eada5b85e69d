from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from runyard.errors import InvalidArgument, NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.model.names import check_asset_name
from runyard.model.plan import DataItem
from runyard.model.runs import AttemptId, RunId, RunRecord, run_of
from runyard.planning.data import LINK, output_mechanisms, output_options
from runyard.ports.stores import AssetStore, RunStore
from runyard.services.data.data_named import planned_data
from runyard.services.data.datasets import Datasets, NewDataset
from runyard.services.data.lineage import Lineage


class Outputs:
    """What runs wrote to datastores, turned into datasets."""

    def __init__(self, runs: RunStore, assets: AssetStore, datasets: Datasets, lineage: Lineage) -> None:
        self._runs, self._assets, self._datasets, self._lineage = runs, assets, datasets, lineage

    def complete(self, attempt_id: AttemptId, name: str, *, files: int, registers: bool) -> Asset:
        """The output is whole on its datastore: save it as a dataset, registered where the run asked for that and
        `registers`. Safe to repeat. Raises NotFound for an output that the run does not have."""
        run = self._runs.get(run_of(attempt_id))
        item = self._item(run, name)
        registration = registration_of(run.definition, name) if registers else None
        there = self._recorded(run, name)
        if there is not None and (there.name or registration is None):
            return there
        new = NewDataset(
            name=str((registration or {}).get("name") or ""),
            body=_body(item, registration or {}),
            tags=_tags(registration or {}),
            validate=files > 0,
            create_new_version=True,
        )
        saved = self._datasets.save(run.workspace, new)
        self._lineage.wrote(run.id, name, saved, item.mode.capitalize())
        return saved

    def link(self, run_id: RunId, name: str, dataset_id: str) -> Asset:
        """The script says which dataset an output that it links itself is; registered at once where that was asked
        for. Safe to repeat."""
        run = self._runs.get(run_id)
        if output_mechanisms(run.definition).get(name) != LINK:
            raise NotFound(f"Run {run.id} has no output {ascii(name)[:80]} that can be linked.")
        dataset = self._datasets.get(run.workspace, dataset_id)
        registration = registration_of(run.definition, name)
        if registration is not None:
            body = {key: value for key, value in dataset.body.items() if key != "pin"} | _described(registration)
            new = NewDataset(registration["name"], body, _tags(registration), create_new_version=True)
            dataset = self._datasets.save(run.workspace, new)
        self._lineage.wrote(run.id, name, dataset, "Link")
        return dataset

    def _item(self, run: RunRecord, name: str) -> DataItem:
        items = planned_data(self._assets, run.workspace, run.id, run.definition)
        for item in items:
            if item.kind == "output" and item.name == name:
                return item
        known = ", ".join(repr(item.name) for item in items if item.kind == "output") or "none"
        raise NotFound(f"Run {run.id} has no output {ascii(name)[:80]}. Known: {known}.")

    def _recorded(self, run: RunRecord, name: str) -> Asset | None:
        for output in reversed(self._lineage.of_run(run.id)[1]):
            if output.output_name == name:
                with suppress(NotFound):  # unregistered meanwhile
                    return self._datasets.get(run.workspace, output.dataset_id)
        return None


def registration_of(definition: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """What register_on_complete asked for that output. InvalidArgument where it cannot be had."""
    given = output_options(definition, name, "registrationOptions")
    if not given:
        return None
    wanted = given.get("name")
    if not isinstance(wanted, str):
        raise InvalidArgument(f"register_on_complete of output {name!r} has no name.")
    check_asset_name(AssetKind.DATASET, wanted)
    for key in ("tags", "datasetRegistrationOptions"):
        if not isinstance(given.get(key) or {}, Mapping):
            raise InvalidArgument(f"{key} of register_on_complete of output {name!r} is no object.")
    return given


def _body(item: DataItem, registration: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"type": "file", "sources": [{"datastore": item.datastore, "path": item.path}]}
    options = registration.get("datasetRegistrationOptions") or {}
    if options.get("additionalTransformation"):
        body |= {"type": "tabular", "format": options["additionalTransformation"]}
    return body | _described(registration)


def _described(registration: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": registration["description"]} if registration.get("description") else {}


def _tags(registration: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in (registration.get("tags") or {}).items()}
