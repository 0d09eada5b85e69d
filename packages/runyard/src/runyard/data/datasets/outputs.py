from contextlib import suppress

from runyard.access.authorization import Access
from runyard.core.data_plan import plan_run_data
from runyard.core.definitions.dataset import DatasetDefinition
from runyard.core.definitions.fields import NOTHING
from runyard.core.definitions.run_data import LINK, Registration
from runyard.core.errors import NotFound
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore, RunStore
from runyard.core.principal import Principal, Role
from runyard.core.records.assets import Asset
from runyard.core.records.launch_plan import DataItem
from runyard.core.records.runs import AttemptId, RunId, RunRecord, run_of
from runyard.data.datasets.dataset_registry import Datasets, NewDataset
from runyard.data.datasets.lineage import Lineage


class OutputDatasets:
    """Makes datasets from what runs wrote to datastores."""

    def __init__(
        self, runs: RunStore, assets: AssetStore, datasets: Datasets, lineage: Lineage, access: Access
    ) -> None:
        self._access = access
        self._runs, self._assets, self._datasets, self._lineage = runs, assets, datasets, lineage

    def complete(self, who: Principal, attempt_id: AttemptId, name: str, *, files: int, registers: bool) -> Asset:
        """Save a complete output as a dataset; register it if the run asked for that and `registers`.

        Safe to repeat. Raises NotFound for an output that the run does not have.
        """
        self._access.attempt(who, Action.SERVE_ATTEMPT, attempt_id)
        run = self._runs.get(run_of(attempt_id))
        item = self._item(run, name)
        registration = run.definition.outputs[name].registration if registers else None
        there = self._recorded(run, name)
        if there is not None and (there.name or registration is None):
            return there
        new = NewDataset(
            name=registration.name if registration else "",
            definition=_definition(item, registration),
            tags=registration.tags if registration else {},
            validate=files > 0,
            create_new_version=True,
        )
        saved = self._datasets.save(_itself(run), run.workspace, new)
        self._lineage.record_output(run.id, name, saved, item.mode.capitalize())
        return saved

    def link(self, who: Principal, run_id: RunId, name: str, dataset_id: str) -> Asset:
        """Set the dataset of an output in link mode, as the script says; register it if the run asked for that.

        Safe to repeat. Raises NotFound for an output that cannot be linked.
        """
        run = self._access.run(who, Action.WRITE_RUN, run_id)
        output = run.definition.outputs.get(name)
        if output is None or output.mode != LINK:
            raise NotFound(f"Run {run.id} has no output {ascii(name)[:80]} that can be linked.")
        dataset = self._datasets.get(who, run.workspace, dataset_id)
        registration = output.registration
        if registration is not None:
            linked = DatasetDefinition(dataset.body).with_pin(None).described_as(registration.description)
            new = NewDataset(registration.name, linked, registration.tags, create_new_version=True)
            dataset = self._datasets.save(_itself(run), run.workspace, new)
        self._lineage.record_output(run.id, name, dataset, "Link")
        return dataset

    def _item(self, run: RunRecord, name: str) -> DataItem:
        items = plan_run_data(self._assets, run.workspace, run.id, run.definition)
        for item in items:
            if item.kind == "output" and item.name == name:
                return item
        known = ", ".join(repr(item.name) for item in items if item.kind == "output") or "none"
        raise NotFound(f"Run {run.id} has no output {ascii(name)[:80]}. Known: {known}.")

    def _recorded(self, run: RunRecord, name: str) -> Asset | None:
        for output in reversed(self._lineage.of_run(_itself(run), run)[1]):
            if output.output_name == name:
                with suppress(NotFound):  # unregistered meanwhile
                    return self._datasets.get(_itself(run), run.workspace, output.dataset_id)
        return None


def _itself(run: RunRecord) -> Principal:
    """The run as principal: it is the creator of its outputs, whoever reports them."""
    return Principal(Role.RUN, run.id, workspace=run.workspace)


def _definition(item: DataItem, registration: Registration | None) -> DatasetDefinition:
    table_format = registration.table_format if registration else NOTHING
    made = DatasetDefinition.of_path(item.datastore, item.path, table_format=table_format)
    return made.described_as(registration.description) if registration else made
