import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runyard.access.tokens import Tokens
from runyard.compute.clusters import Clusters
from runyard.compute.gpus import Gpu, GpuShare, given_gpus, share_gpus
from runyard.compute.local.pool import slot_of
from runyard.core.data_plan import packages_for_tables, plan_run_data, require_data
from runyard.core.errors import EnvironmentFailed, InvalidArgument, NotFound
from runyard.core.ports.engine import Site, Ticket
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.ports.stores import AssetStore, FileStore
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import DataItem, EnvironmentSpec, ImageSpec
from runyard.core.records.nodes import NodeAllocation
from runyard.core.records.runs import RunRecord, attempt_id
from runyard.core.submitter_variables import submitter_variables
from runyard.environments.builder import LocalEnvironments, discard_environment
from runyard.environments.folder import environment_key
from runyard.environments.planning.environment_spec import plan_environment
from runyard.environments.workspace.built_environments import BuiltEnvironments
from runyard.environments.workspace.locks import EnvironmentLocks as KeptEnvironments
from runyard.environments.workspace.package_settings import WorkspacePackages
from runyard.environments.workspace.secrets import RegistryLogins
from runyard.runs.launch.layout import AttemptResources
from runyard.runs.launch.plan import plan_preparation, plan_run
from runyard.runs.launch.variables import RunContext
from runyard.runs.scheduling.reports import OutputCompleter
from runyard.runs.scheduling.restarts import outputs_of, restarts_of, restores_outputs

OUTPUTS = "outputs/"


@dataclass(frozen=True)
class LaunchEnvironments:
    """Finds the environment of a run: built on this machine, or kept by the workspace for other nodes."""

    root: Path
    packages: WorkspacePackages
    logins: RegistryLogins
    built: BuiltEnvironments
    kept: KeptEnvironments

    def key_of(self, spec: EnvironmentSpec) -> str:
        """Cache key of the environment; equal for specs that one environment serves."""
        return environment_key(spec)

    def find(self, run: RunRecord, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        """Environment on this machine for the spec and the submitter's variables, if built."""
        return LocalEnvironments(self.root, submitter_variables(run.definition)).find(spec)

    def is_kept(self, run: RunRecord, spec: EnvironmentSpec) -> bool:
        """Whether nodes without our file system can make it from what the workspace keeps."""
        return self.kept.known(run.workspace, environment_key(spec))

    def sources(self, run: RunRecord) -> str:
        """Part of the key: the package indexes of the workspace or of the submitter."""
        return self.packages.sources(run.workspace, submitter_variables(run.definition))

    def login(self, run: RunRecord, image: ImageSpec) -> str:
        """Part of the key: the workspace's login to the image's registry."""
        return self.logins.shown(run.workspace, image)

    def note_built(self, run: RunRecord, key: str) -> None:
        """Record that the run uses the environment of that key."""
        self.built.note(run, key)

    def forget_built(self, key: str) -> bool:
        """Remove the built environment from this machine; False if it is in use."""
        return discard_environment(self.root, key)

    def image_of(self, built: BuiltEnvironment) -> Mapping[str, Any] | None:
        """Facts about the container image of the environment, if any."""
        return self.built.image_of(built.key)


@dataclass(frozen=True)
class LaunchDependencies:
    """Stores and settings that launching a run needs."""

    assets: AssetStore
    files: FileStore
    clusters: Clusters
    tokens: Tokens
    environments: LaunchEnvironments
    gpus: tuple[Gpu, ...] = ()
    refuses_missing_gpus: bool = False
    """Whether a run that asks for missing GPUs fails; otherwise it uses the CPU and gets a warning."""
    launched_from: str | None = None
    """Name of this service, stored with the runs that it starts."""
    outputs: OutputCompleter | None = None
    """Saves the outputs of runs on several nodes as datasets."""


class Launcher:
    """Plans runs and submits the plans to the engine. Raises RunyardError for a run that cannot be planned."""

    def __init__(self, dependencies: LaunchDependencies) -> None:
        self._dependencies, self._environments = dependencies, dependencies.environments

    def has_environment(self, run: RunRecord) -> bool:
        """Whether the run can start without a build."""
        spec = self._planned(run)
        if spec.user_managed and spec.image is None:
            return True
        if not self._dependencies.clusters.site_of(run).shares_files:
            return self._environments.is_kept(run, spec)
        found = self._environments.find(run, spec)
        if found is not None and found.key:
            self._environments.note_built(run, found.key)
        return found is not None

    def build_of(self, run: RunRecord) -> str:
        """Key of the build that the run needs. It differs by workspace and by the submitter's variables: a build may
        fail with the settings of one and succeed with those of another."""
        key, variables = self._environments.key_of(self._planned(run)), submitter_variables(run.definition)
        site = self._dependencies.clusters.site_of(run).name
        return json.dumps([site, run.workspace, key, variables], sort_keys=True)

    def note_built(self, run: RunRecord, key: str) -> None:
        """Record the key of the run's environment."""
        self._environments.note_built(run, key)

    def forget_built(self, run: RunRecord) -> None:
        """Remove the run's environment so that it is built again. Raises EnvironmentFailed if it is in use."""
        found = self._environments.find(run, self._planned(run))
        if found is not None and found.key and not self._environments.forget_built(found.key):
            raise EnvironmentFailed(
                f"Environment {found.key} is in use, so it cannot be made anew.",
                hint="Wait for the runs and web services that have it, or end them; then build again.",
                cause=FailureCause.UNKNOWN,
                said="",
            )

    def built(self, run: RunRecord) -> Mapping[str, Any]:
        """Key, image and lock of the run's environment; only the lock if it is not on this machine."""
        found = self._environments.find(run, self._planned(run))
        if found is None:
            return {"key": "", "image": None, "lock": run.environment_lock}
        return {"key": found.key, "image": self._environments.image_of(found), "lock": found.lock}

    def prepare(self, run: RunRecord) -> Ticket:
        """Submit the build of the run's environment. Safe to repeat for the same attempt."""
        site = self._dependencies.clusters.site_of(run)
        return site.engine.submit(plan_preparation(run, self._resources(run, site, NodeAllocation())))

    def launch(self, run: RunRecord, allocation: NodeAllocation) -> Ticket:
        """Submit the run on these nodes, or on this machine without any. Safe to repeat for the same attempt."""
        self._take_over_outputs(run)
        site = self._dependencies.clusters.site_of(run)
        found = self._resources(run, site, allocation)
        if found.gpus.notice and self._dependencies.refuses_missing_gpus:
            raise InvalidArgument(
                f"{found.gpus.notice.removeprefix('Runyard: ').rpartition(';')[0]}.",
                hint="Ask for no GPU, or choose a compute target that has one. The operator's RUNYARD_MISSING_GPU is "
                "'refuse'.",
            )
        return site.engine.submit(plan_run(run, found))

    def _take_over_outputs(self, run: RunRecord) -> None:
        """Copy the outputs of the run to resume from, before the first attempt."""
        earlier = outputs_of(run)
        if earlier is None or restarts_of(run):
            return
        try:
            found = self._dependencies.files.list(earlier, OUTPUTS)
        except NotFound:
            raise NotFound(f"Run {earlier!r}, with whose outputs this one was to go on, was deleted.") from None
        self._dependencies.files.put(run.id, found)

    def _resources(self, run: RunRecord, site: Site, allocation: NodeAllocation) -> AttemptResources:
        dependencies, attempt = self._dependencies, attempt_id(run.id, run.attempt)
        gpus, token = self._share(run, allocation), dependencies.tokens.node_token(attempt)
        return AttemptResources(
            attempt_id=attempt,
            context=RunContext(
                workspace=dependencies.assets.get_workspace(run.workspace),
                experiment_id=dependencies.assets.ensure_experiment(run.workspace, run.experiment).id,
                url=site.url,
                run_token=dependencies.tokens.run_token(attempt),
            ),
            node_token=token,
            environment=self._environment(run, gpus),
            addresses=tuple(node.address for node in allocation.nodes) or ("127.0.0.1",),
            names=tuple(node.name for node in allocation.nodes),
            gpus=gpus,
            code=dependencies.files.get_snapshot(run.snapshot_id).entries if run.snapshot_id else (),
            data=self._data(run),
            # Derived, not random: a repeated launch must give all nodes the same secret. "gang" is its salt: nodes of
            # a running attempt have the secret that was made with it.
            secret=hashlib.sha256(f"gang\n{token}".encode()).hexdigest(),
            shares_files=site.shares_files,
            restores_outputs=restores_outputs(run),
        )

    def _planned(self, run: RunRecord) -> EnvironmentSpec:
        return self._environment(run, self._share(run, NodeAllocation()))

    def _environment(self, run: RunRecord, gpus: GpuShare) -> EnvironmentSpec:
        dependencies, definition = self._dependencies, run.definition
        spec = plan_environment(
            definition,
            gpu_present=gpus.has_gpus,
            for_tables=packages_for_tables(dependencies.assets, run.workspace, definition),
            sources=self._environments.sources(run),
        )
        if spec.image is None:
            return spec
        return replace(spec, image=replace(spec.image, login=self._environments.login(run, spec.image)))

    def _share(self, run: RunRecord, allocation: NodeAllocation) -> GpuShare:
        """GPUs of each node. Before there are nodes, those expected: the environment depends on them."""
        cluster = self._dependencies.clusters.cluster_of(run)
        vm_size = str((cluster.body.get("vm_size") if cluster else "") or "")
        given = [node.gpus for node in allocation.nodes if node.gpus is not None]
        if given:
            return given_gpus(run.definition, given, vm_size)
        count = len(allocation.nodes) or run.definition.node_count
        promised = self._dependencies.clusters.gpus_promised(run)
        if promised is not None:
            return given_gpus(run.definition, [[str(number) for number in range(promised)]] * count, vm_size)
        slots = [slot_of(node) for node in allocation.nodes] or list(range(count))
        most_slots = max(count, allocation.most_nodes)
        return share_gpus(run.definition, self._dependencies.gpus, slots=slots, most_slots=most_slots, vm_size=vm_size)

    def _data(self, run: RunRecord) -> tuple[DataItem, ...]:
        assets = self._dependencies.assets
        items = plan_run_data(assets, run.workspace, run.id, run.definition)
        require_data(assets, run.workspace, items)
        return items
