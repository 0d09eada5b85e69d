from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from runyard.access.authorization import Access
from runyard.core.data_plan import plan_run_data
from runyard.core.errors import Conflict, RunyardError, SourceChanged
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore, RunStore
from runyard.core.principal import SERVICE, Principal
from runyard.core.records.data import DataForAttempt, DatasetFiles, NetworkRules, StoreAccess
from runyard.core.records.launch_plan import DataItem
from runyard.core.records.runs import AttemptId, RunRecord, run_of
from runyard.data.datasets.dataset_registry import Datasets
from runyard.data.datasets.lineage import Lineage
from runyard.data.datasets.network_policy import NetworkPolicy
from runyard.data.datasets.open_datastores import OpenDatastores

ONE_INPUT = "data"


class AttemptData:
    """Data of an attempt for its node: the files of its datasets, and access to their stores."""

    def __init__(
        self,
        runs: RunStore,
        assets: AssetStore,
        datasets: Datasets,
        stores: OpenDatastores,
        lineage: Lineage,
        network: NetworkPolicy,
        access: Access,
        *,
        refuses_changes: bool,
        name_place: Callable[[str], str],
    ) -> None:
        """`name_place` maps a folder to a unique name that does not reveal its path."""
        self._runs, self._assets, self._datasets, self._stores = runs, assets, datasets, stores
        self._lineage, self._network, self._refuses_changes = lineage, network, refuses_changes
        self._access, self._name_place = access, name_place

    def of_attempt(
        self, who: Principal, attempt_id: AttemptId, *, stores_alone: bool, is_apart: bool
    ) -> DataForAttempt:
        """Data of an attempt. Records what the run reads, and warns of data that changed since its version was made.

        `stores_alone` leaves out the datasets, for the uploads at the end of a run. A node that `is_apart` does not
        share a disk with the service. Raises Conflict if the run has ended, SourceChanged where changes are refused.
        """
        self._access.attempt(who, Action.SERVE_ATTEMPT, attempt_id)
        run = self._runs.get(run_of(attempt_id))
        if run.status.is_terminal:
            raise Conflict(f"Run {run.id} has ended as {run.status}; no more data is staged for it.")
        items = plan_run_data(self._assets, run.workspace, run.id, run.definition)
        rules = self._network.for_run(run.definition)
        found = {} if stores_alone else self._found(run, items, rules)
        named = {item.datastore for item in items if item.datastore}
        return self._reachable(run.workspace, found, named, rules, is_apart)

    def of_dataset(self, who: Principal, workspace: str, dataset_id: str, *, is_apart: bool) -> DataForAttempt:
        """Files of one dataset, and access to the stores that they are on, and no others.

        Files in the operator's bucket are read through the service, unless the caller may read every credential.
        """
        self._access.workspace(who, Action.OPEN_DATASET, workspace)
        dataset = self._lineage.record_lookup(who, self._datasets.get(who, workspace, dataset_id))
        rules = self._network.for_request({})
        seen = self._datasets.resolve_saved(who, dataset, rules)
        found = {ONE_INPUT: seen.resolved.as_dataset_files(seen.changes)}
        patient = replace(rules, retry_seconds=60.0, silence_seconds=60.0)
        data = self._reachable(workspace, found, set(), patient, is_apart)
        return data if self._access.may_read_every_credential(who) else self._without_operators(workspace, data)

    def _found(self, run: RunRecord, items: Sequence[DataItem], rules: NetworkRules) -> dict[str, DatasetFiles]:
        wanted = {item.name: item for item in items if item.kind == "dataset"}
        datasets = {name: self._datasets.get(SERVICE, run.workspace, item.dataset_id) for name, item in wanted.items()}
        found = {}
        for name, dataset in datasets.items():
            with _naming(name):
                seen = self._datasets.resolve_saved(SERVICE, dataset, rules)
            found[name] = seen.resolved.as_dataset_files([f"Data input {name!r}: {change}" for change in seen.changes])
        self._warn_of_changes(run, [change for files in found.values() for change in files.changes])
        self._lineage.record_inputs(
            run.id, {name: (dataset, wanted[name].mode.capitalize()) for name, dataset in datasets.items()}
        )
        return found

    def _warn_of_changes(self, run: RunRecord, changes: Sequence[str]) -> None:
        if changes and self._refuses_changes:
            raise SourceChanged(
                " ".join(changes), hint="Register a new version of the dataset, or set RUNYARD_CHANGED_DATA=warn."
            )
        if new_warnings := tuple(change for change in changes if change not in run.warnings):
            self._runs.update(run.id, warnings=new_warnings)

    def _reachable(
        self,
        workspace: str,
        found: Mapping[str, DatasetFiles],
        named: set[str],
        rules: NetworkRules,
        is_apart: bool,
    ) -> DataForAttempt:
        names = named | {file.store for files in found.values() for file in files.files}
        stores = {name: self._stores.access(workspace, name) for name in sorted(names)}
        if is_apart:
            folders = {name: access for name, access in stores.items() if access.kind == "folder"}
            stores |= {name: self._through_the_service(workspace, name, one) for name, one in folders.items()}
        return DataForAttempt(found, stores, rules)

    def _without_operators(self, workspace: str, data: DataForAttempt) -> DataForAttempt:
        """Data without the operator's credentials: they would open the data of every workspace."""
        own = {name: one for name, one in data.stores.items() if self._stores.has_operators_secrets(workspace, name)}
        hidden = {name: self._through_the_service(workspace, name, one) for name, one in own.items()}
        return replace(data, stores={**data.stores, **hidden})

    def _through_the_service(self, workspace: str, name: str, access: StoreAccess) -> StoreAccess:
        """Access to a store through the service. The caller knows the service's address and its own token."""
        return StoreAccess("service", f"{workspace}/{name}", {"place": self._name_place(access.root)})


@contextmanager
def _naming(input_name: str) -> Iterator[None]:
    """Name the data input in the errors of the block."""
    try:
        yield
    except RunyardError as error:
        raise type(error)(f"Data input {input_name!r}: {error.problem}", hint=error.hint, **error.facts) from error
