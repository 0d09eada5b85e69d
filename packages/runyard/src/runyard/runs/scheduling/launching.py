import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runyard.compute.local.pool import slot_of
from runyard.errors import EnvironmentFailed, InvalidArgument, NotFound
from runyard.model.causes import Cause
from runyard.model.nodes import Gang
from runyard.model.plan import DataItem, EnvironmentSpec
from runyard.model.runs import RunRecord, attempt_id
from runyard.planning.environment import plan_environment
from runyard.planning.gpus import Gpu, GpuShare, given_gpus, share_gpus
from runyard.planning.launch import plan_preparation, plan_run
from runyard.planning.resources import Resources
from runyard.planning.variables import Place, submitter_variables
from runyard.ports.engine import Site, Ticket
from runyard.ports.stores import AssetStore, FileStore
from runyard.runs.scheduling.environments import LaunchEnvironments
from runyard.runs.scheduling.outputs import CompletesOutputs
from runyard.runs.scheduling.places import Places
from runyard.runs.scheduling.restarts import outputs_of, restarts_of, restores_outputs
from runyard.services.data.data_named import packages_for_tables, planned_data, require_data
from runyard.services.tokens import Tokens

OUTPUTS = "outputs/"


@dataclass(frozen=True)
class Surroundings:
    """What runs need around them."""

    assets: AssetStore
    files: FileStore
    places: Places
    tokens: Tokens
    environments: LaunchEnvironments
    gpus: tuple[Gpu, ...] = ()
    refuses_missing_gpus: bool = False
    """Whether a run that asks for GPUs where there are none fails, instead of taking the CPU with a warning."""
    launched_from: str | None = None
    """This service, as runs that it starts name it."""
    outputs: CompletesOutputs | None = None
    """Where datasets are made of what runs on several nodes wrote."""


class Launching:
    """Turns runs into plans and hands them to the engine. RunyardError says what of a run cannot be planned."""

    def __init__(self, around: Surroundings) -> None:
        self._around, self._environments = around, around.environments

    def has_environment(self, run: RunRecord) -> bool:
        """Whether the run can start without building anything first."""
        spec = self._planned(run)
        if spec.user_managed and spec.image is None:
            return True
        if not self._around.places.site_of(run).shares_files:
            return self._environments.is_kept(run, spec)
        found = self._environments.find(run, spec)
        if found is not None and found.key:
            self._environments.note_built(run, found.key)
        return found is not None

    def build_of(self, run: RunRecord) -> str:
        """The same for runs whose environments are made by one build, in the same way: what serves one may fail for
        another submitter, or with the settings of another workspace."""
        key, variables = self._environments.key_of(self._planned(run)), submitter_variables(run.definition)
        return json.dumps([self._around.places.site_of(run).name, run.workspace, key, variables], sort_keys=True)

    def note_built(self, run: RunRecord, key: str) -> None:
        """That the run's environment has that key."""
        self._environments.note_built(run, key)

    def forget_built(self, run: RunRecord) -> None:
        """Have the run's environment made anew. EnvironmentFailed where somebody uses the one that is there."""
        found = self._environments.find(run, self._planned(run))
        if found is not None and found.key and not self._environments.forget_built(found.key):
            raise EnvironmentFailed(
                f"Environment {found.key} is in use, so it cannot be made anew.",
                hint="Wait for the runs and web services that have it, or end them; then build again.",
                cause=Cause.UNKNOWN,
                said="",
            )

    def built(self, run: RunRecord) -> Mapping[str, Any]:
        """The key, image and lock of the environment that the run has; of one that is not on this machine, the lock."""
        found = self._environments.find(run, self._planned(run))
        if found is None:
            return {"key": "", "image": None, "lock": run.environment_lock}
        return {"key": found.key, "image": self._environments.image_of(found), "lock": found.lock}

    def prepare(self, run: RunRecord) -> Ticket:
        """Have the environment built. Safe to repeat for the same attempt."""
        site = self._around.places.site_of(run)
        return site.engine.submit(plan_preparation(run, self._resources(run, site, Gang())))

    def launch(self, run: RunRecord, gang: Gang) -> Ticket:
        """Have the run started on these nodes, or on this machine as it is. Safe to repeat for the same attempt."""
        self._take_over_outputs(run)
        site = self._around.places.site_of(run)
        found = self._resources(run, site, gang)
        if found.gpus.notice and self._around.refuses_missing_gpus:
            raise InvalidArgument(
                f"{found.gpus.notice.removeprefix('Runyard: ').rpartition(';')[0]}.",
                hint="Ask for no GPU, or choose a compute target that has one. The operator's RUNYARD_MISSING_GPU is "
                "'refuse'.",
            )
        return site.engine.submit(plan_run(run, found))

    def _take_over_outputs(self, run: RunRecord) -> None:
        """A run that goes on with another's outputs has them as its own from its first attempt on."""
        earlier = outputs_of(run)
        if earlier is None or restarts_of(run):
            return
        try:
            found = self._around.files.list(earlier, OUTPUTS)
        except NotFound:
            raise NotFound(f"Run {earlier!r}, with whose outputs this one was to go on, was deleted.") from None
        self._around.files.put(run.id, found)

    def _resources(self, run: RunRecord, site: Site, gang: Gang) -> Resources:
        around, attempt = self._around, attempt_id(run.id, run.attempt)
        gpus, token = self._share(run, gang), around.tokens.node_token(attempt)
        return Resources(
            attempt_id=attempt,
            place=Place(
                workspace=around.assets.get_workspace(run.workspace),
                experiment_id=around.assets.ensure_experiment(run.workspace, run.experiment).id,
                url=site.url,
                run_token=around.tokens.run_token(attempt),
            ),
            node_token=token,
            environment=self._environment(run, gpus),
            addresses=tuple(node.address for node in gang.nodes) or ("127.0.0.1",),
            names=tuple(node.name for node in gang.nodes),
            gpus=gpus,
            code=around.files.get_snapshot(run.snapshot_id).entries if run.snapshot_id else (),
            data=self._data(run),
            # Derived, not drawn: a launch that is repeated must give all nodes the same.
            secret=hashlib.sha256(f"gang\n{token}".encode()).hexdigest(),
            shares_files=site.shares_files,
            restores_outputs=restores_outputs(run),
        )

    def _planned(self, run: RunRecord) -> EnvironmentSpec:
        return self._environment(run, self._share(run, Gang()))

    def _environment(self, run: RunRecord, gpus: GpuShare) -> EnvironmentSpec:
        around, definition = self._around, run.definition
        spec = plan_environment(
            definition,
            gpu_present=gpus.has_gpus,
            for_tables=packages_for_tables(around.assets, run.workspace, definition),
            sources=self._environments.sources(run),
        )
        if spec.image is None:
            return spec
        return replace(spec, image=replace(spec.image, login=self._environments.login(run, spec.image)))

    def _share(self, run: RunRecord, gang: Gang) -> GpuShare:
        """Before the run has nodes, as they will be: its environment depends on whether they have GPUs."""
        cluster = self._around.places.cluster_of(run)
        vm_size = str((cluster.body.get("vm_size") if cluster else "") or "")
        given = [node.gpus for node in gang.nodes if node.gpus is not None]
        if given:
            return given_gpus(run.definition, given, vm_size)
        count = len(gang.nodes) or run.definition.node_count
        promised = self._around.places.gpus_promised(run)
        if promised is not None:
            return given_gpus(run.definition, [[str(number) for number in range(promised)]] * count, vm_size)
        slots = [slot_of(node) for node in gang.nodes] or list(range(count))
        most_slots = max(count, gang.most_nodes)
        return share_gpus(run.definition, self._around.gpus, slots=slots, most_slots=most_slots, vm_size=vm_size)

    def _data(self, run: RunRecord) -> tuple[DataItem, ...]:
        assets = self._around.assets
        items = planned_data(assets, run.workspace, run.id, run.definition)
        require_data(assets, run.workspace, items)
        return items
