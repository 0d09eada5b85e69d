import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runyard.controller.outputs import CompletesOutputs
from runyard.controller.restarts import outputs_of, restarts_of, restores_outputs
from runyard.engines.local_pool import slot_of
from runyard.errors import EnvironmentFailed, InvalidArgument, NotFound
from runyard.model.causes import Cause
from runyard.model.images import ImageSpec
from runyard.model.nodes import Gang
from runyard.model.plan import DataItem, EnvironmentSpec
from runyard.model.runs import RunRecord, attempt_id
from runyard.planning.distribution import node_count_of
from runyard.planning.environment import plan_environment
from runyard.planning.gpus import Gpu, GpuShare, given_gpus, share_gpus
from runyard.planning.launch import plan_preparation, plan_run
from runyard.planning.resources import Resources
from runyard.planning.variables import Place, submitter_variables
from runyard.ports.engine import Site
from runyard.ports.environments import BuiltEnvironment, EnvironmentBuilder
from runyard.ports.stores import AssetStore, FileStore
from runyard.services.data.data_named import packages_for_tables, planned_data, require_data
from runyard.services.places import Places
from runyard.services.tokens import Tokens

OUTPUTS = "outputs/"


@dataclass(frozen=True)
class Surroundings:
    """What runs need around them."""

    assets: AssetStore
    files: FileStore
    places: Places
    tokens: Tokens
    environments: Callable[[Mapping[str, str]], EnvironmentBuilder]
    """The builder on this machine that sees the submitter's variables."""
    knows_environment: Callable[[str, EnvironmentSpec], bool] = lambda workspace, spec: False
    """Whether nodes that share no files with us can make it from what the workspace keeps."""
    sources: Callable[[str, Mapping[str, str]], str] = lambda workspace, variables: ""
    """What tells apart environments by the indexes that the workspace, or else the submitter, takes packages from."""
    logins: Callable[[str, ImageSpec], str] = lambda workspace, image: ""
    """What tells apart images by the logins that the workspace has to their registries."""
    key_of: Callable[[EnvironmentSpec], str] = repr
    """The same for specs that one environment serves."""
    note_built: Callable[[RunRecord, str], None] = lambda run, key: None
    """Told the key of the environment that a run has on this machine."""
    forget_built: Callable[[str], bool] = lambda key: True
    """Removes the environment of that key from this machine, unless somebody uses it."""
    image_of: Callable[[BuiltEnvironment], Mapping[str, Any] | None] = lambda built: None
    """What is known of the container image that it lies in."""
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
        self._around = around

    def has_environment(self, run: RunRecord) -> bool:
        """Whether the run can start without building anything first."""
        spec = self._planned(run)
        if spec.user_managed and spec.image is None:
            return True
        if not self._around.places.site_of(run).engine.capabilities.shares_files:
            return self._around.knows_environment(run.workspace, spec)
        found = self._find(run, spec)
        if found is not None and found.key:
            self._around.note_built(run, found.key)
        return found is not None

    def build_of(self, run: RunRecord) -> str:
        """The same for runs whose environments are made by one build, in the same way: what serves one may fail for
        another submitter, or with the settings of another workspace."""
        key, variables = self._around.key_of(self._planned(run)), submitter_variables(run.definition)
        return json.dumps([self._around.places.site_of(run).name, run.workspace, key, variables], sort_keys=True)

    def note_built(self, run: RunRecord, key: str) -> None:
        """That the run's environment has that key."""
        self._around.note_built(run, key)

    def forget_built(self, run: RunRecord) -> None:
        """Have the run's environment made anew. EnvironmentFailed where somebody uses the one that is there."""
        found = self._find(run, self._planned(run))
        if found is not None and found.key and not self._around.forget_built(found.key):
            raise EnvironmentFailed(
                f"Environment {found.key} is in use, so it cannot be made anew.",
                hint="Wait for the runs and web services that have it, or end them; then build again.",
                cause=Cause.UNKNOWN,
                said="",
            )

    def built(self, run: RunRecord) -> Mapping[str, Any]:
        """The key, image and lock of the environment that the run has; of one that is not on this machine, the lock."""
        found = self._find(run, self._planned(run))
        if found is None:
            return {"key": "", "image": None, "lock": run.environment_lock}
        return {"key": found.key, "image": self._around.image_of(found), "lock": found.lock}

    def prepare(self, run: RunRecord) -> None:
        """Have the environment built. Safe to repeat for the same attempt."""
        site = self._around.places.site_of(run)
        site.engine.submit(plan_preparation(run, self._resources(run, site, Gang())))

    def launch(self, run: RunRecord, gang: Gang) -> None:
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
        site.engine.submit(plan_run(run, found))

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
            shares_files=site.engine.capabilities.shares_files,
            restores_outputs=restores_outputs(run),
        )

    def _find(self, run: RunRecord, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        return self._around.environments(submitter_variables(run.definition)).find(spec)

    def _planned(self, run: RunRecord) -> EnvironmentSpec:
        return self._environment(run, self._share(run, Gang()))

    def _environment(self, run: RunRecord, gpus: GpuShare) -> EnvironmentSpec:
        around, definition = self._around, run.definition
        spec = plan_environment(
            definition,
            gpu_present=gpus.has_gpus,
            for_tables=packages_for_tables(around.assets, run.workspace, definition),
            sources=around.sources(run.workspace, submitter_variables(definition)),
        )
        if spec.image is None:
            return spec
        return replace(spec, image=replace(spec.image, login=around.logins(run.workspace, spec.image)))

    def _share(self, run: RunRecord, gang: Gang) -> GpuShare:
        """Before the run has nodes, as they will be: its environment depends on whether they have GPUs."""
        cluster = self._around.places.cluster_of(run)
        vm_size = str((cluster.body.get("vm_size") if cluster else "") or "")
        given = [node.gpus for node in gang.nodes if node.gpus is not None]
        if given:
            return given_gpus(run.definition, given, vm_size)
        count = len(gang.nodes) or node_count_of(run.definition)
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
