from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runyard.access.authorization import Access
from runyard.access.snapshots import Snapshots
from runyard.assets.workspaces import Workspaces
from runyard.compute.clusters import UNMANAGED_TARGETS, Clusters
from runyard.core.data_plan import plan_run_data, require_data, require_dataset
from runyard.core.definitions.run import EMPTY_DEFINITION, OUTPUTS_OF, RunDefinition
from runyard.core.errors import AlreadyExists, Conflict, InvalidArgument, NotFound
from runyard.core.names import check_experiment_name, check_relative_path, check_run_id
from runyard.core.policy import Action
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import AssetStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.assets import AssetKind
from runyard.core.records.files import FileEntry, Snapshot
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.runs import INTERACTIVE_TARGET, RunId, RunRecord, RunStatus
from runyard.core.records.sweeps import SweepSpec
from runyard.environments.planning.container_request import check_host_access, check_local_files, without_host_paths
from runyard.environments.planning.environment_spec import plan_environment
from runyard.environments.workspace.intake import EnvironmentIntake
from runyard.environments.workspace.names import EnvironmentNames
from runyard.runs.direct_inputs import DirectInputs
from runyard.runs.launch.distribution import distribution_of
from runyard.runs.scheduling.controller import RunController

SNAPSHOT_PROPERTY = "ContentSnapshotId"
SERVES_ONLY = "AKS"
"""Type of compute targets that take web services but no runs."""
CANCELED = frozenset({RunStatus.CANCEL_REQUESTED, RunStatus.CANCELED})


@dataclass(frozen=True)
class Submission:
    """A run to submit. `snapshot` is None for a run without files."""

    run_id: str
    definition: RunDefinition = EMPTY_DEFINITION
    sweep: SweepSpec | None = None
    """Parsed sweep of the definition; None for other runs."""
    snapshot: Sequence[FileEntry] | None = None
    type: str = "azureml.scriptrun"
    tags: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    display_name: str = ""
    parent_id: RunId | None = None
    is_interactive: bool = False
    allow_large: bool = False
    outputs_of: RunId | None = None
    """Run whose outputs this one begins with. Set by the service only, after checking access; never by a client."""


class RunEnvironments:
    """Checks and names the environment of a submitted definition, before the run is stored."""

    def __init__(self, incoming: EnvironmentIntake, names: EnvironmentNames, *, allows_host_access: bool) -> None:
        self._incoming, self._names, self._allows_host_access = incoming, names, allows_host_access

    def accept(
        self, who: Principal, workspace: str, definition: RunDefinition, *, is_started: bool = True
    ) -> RunDefinition:
        """Return the definition to store: passwords taken out, environment named.

        Raises InvalidArgument for an environment that can never be built or that the operator does not allow. Only
        passwords are taken out for a run that we do not start (`is_started=False`).
        """
        kept = self._incoming.of_definition(who, workspace, definition)
        if not is_started:
            return kept
        if self._check(kept).image is not None and not self._allows_host_access:
            kept = without_host_paths(kept)
        if not kept.environment:
            return kept
        return kept.with_environment(self._names.named(who, workspace, kept.environment))

    def _check(self, definition: RunDefinition) -> EnvironmentSpec:
        spec = plan_environment(definition, gpu_present=False)
        if spec.image is not None:
            check_host_access(definition, is_allowed=self._allows_host_access)
            if not self._allows_host_access:
                check_local_files(spec)
        return spec


class Submissions:
    def __init__(
        self,
        workspaces: Workspaces,
        runs: RunStore,
        assets: AssetStore,
        snapshots: Snapshots,
        inputs: DirectInputs,
        environments: RunEnvironments,
        clusters: Clusters,
        controller: RunController,
        clock: Clock,
        access: Access,
    ) -> None:
        self._access = access
        self._workspaces, self._runs, self._assets, self._clusters = workspaces, runs, assets, clusters
        self._environments = environments
        self._snapshots, self._inputs, self._clock = snapshots, inputs, clock
        self._controller, self._kinds = controller, controller.kinds

    def submit(self, who: Principal, workspace: str, experiment: str, submission: Submission) -> RunRecord:
        """Store the run and start it. Idempotent by `run_id`: a repeated call returns the run as it is."""
        self._workspaces.enter(who, Action.SUBMIT_RUN, workspace)
        run_id = RunId(check_run_id(submission.run_id))
        check_experiment_name(experiment)
        there = self._find(run_id, workspace, experiment)
        if there is not None:
            return there
        snapshot, warnings = self._checked(who, workspace, submission)
        is_started = not submission.is_interactive
        definition = self._environments.accept(who, workspace, submission.definition, is_started=is_started)
        submission = replace(submission, definition=definition)
        new = self._record(who, run_id, workspace, experiment, submission, snapshot)
        try:
            created = self._runs.create(new)
        except AlreadyExists:
            return self._find(run_id, workspace, experiment) or self._runs.get(run_id)
        if warnings:
            created = self._runs.update(run_id, warnings=tuple(warnings))
        self._inputs.record(created)
        if not submission.is_interactive:
            self._controller.wake(run_id)
        return created

    def add_snapshot(self, who: Principal, run_id: RunId, entries: Sequence[FileEntry]) -> RunRecord:
        """Add the snapshot of a run that has begun; does nothing if it has it. Raises AlreadyExists for another."""
        self._access.run(who, Action.WRITE_RUN, run_id)
        snapshot, warnings = self._snapshots.keep(who, entries, allow_large=False)
        try:
            # A property cannot change once set, so one of two concurrent calls is refused.
            return self._runs.update(
                run_id,
                snapshot_id=snapshot.id,
                properties={SNAPSHOT_PROPERTY: snapshot.id},
                **({"warnings": tuple(warnings)} if warnings else {}),
            )
        except Conflict:
            raise AlreadyExists(
                f"Run {run_id} has a snapshot already.", hint="A run has one at most: take it of all that matters."
            ) from None

    def _find(self, run_id: RunId, workspace: str, experiment: str) -> RunRecord | None:
        try:
            run = self._runs.get(run_id)
        except NotFound:
            return None
        if (run.workspace, run.experiment) != (workspace, experiment):
            where = f"{run.experiment!r}" if run.workspace == workspace else "another workspace"
            raise AlreadyExists(f"The run_id {run_id!r} is taken by a run of {where}.", hint="Choose another run_id.")
        return run

    def _checked(self, who: Principal, workspace: str, submission: Submission) -> tuple[Snapshot | None, list[str]]:
        self._kinds.check_any(submission)
        kind = self._kinds.of_type(submission.type, is_interactive=submission.is_interactive)
        kind.check_properties(submission.properties)
        check_no_foreign_outputs(submission.definition)
        kind.check(who, workspace, submission)
        if kind.needs_script:
            self._check_target(who, workspace, submission.definition)
        snapshot, warnings = None, list[str]()
        if submission.snapshot is not None:
            snapshot, warnings = self._snapshots.keep(who, submission.snapshot, allow_large=submission.allow_large)
        if kind.needs_script:
            check_script(submission.definition, snapshot.entries if snapshot else ())
        self._check_data(who, workspace, submission)
        return snapshot, warnings

    def _check_data(self, who: Principal, workspace: str, submission: Submission) -> None:
        """Raise NotFound or Forbidden for data that is missing or that the caller may not use."""
        items = plan_run_data(self._assets, workspace, submission.run_id, submission.definition)
        if submission.definition.data:
            self._access.workspace(who, Action.READ_DATASET, workspace)
        if any(item.datastore for item in items):
            self._access.workspace(who, Action.READ_FILES, workspace)
            self._access.workspace(who, Action.WRITE_FILES, workspace)
        require_data(self._assets, workspace, items)
        for one in submission.definition.data.values():
            require_dataset(self._assets, workspace, one.name, one.dataset_id)

    def _check_target(self, who: Principal, workspace: str, definition: RunDefinition) -> None:
        target = definition.target
        if target in UNMANAGED_TARGETS:
            check_nodes(definition, target, max_nodes=1 if target == "local" else self._clusters.most_nodes(None))
            return
        self._access.workspace(who, Action.READ_ASSET, workspace)
        computes = self._assets.list(workspace, AssetKind.COMPUTE, latest_only=True)
        for compute in computes:
            if compute.name == target:
                if compute.body.get("type") == SERVES_ONLY:
                    raise InvalidArgument(
                        f"The compute target {target!r} is of type {SERVES_ONLY}: it takes web services, not runs.",
                        hint="Submit to 'local' or to an AmlCompute.",
                    )
                check_nodes(definition, target, max_nodes=self._clusters.most_nodes(compute))
                self._clusters.check(compute, definition)
                return
        known = ", ".join(f"'{name}'" for name in sorted({"local", *(compute.name for compute in computes)}))
        raise NotFound(f"There is no compute target {target!r} in workspace {workspace!r}. Known: {known}.")

    def _record(
        self,
        who: Principal,
        run_id: RunId,
        workspace: str,
        experiment: str,
        submission: Submission,
        snapshot: Snapshot | None,
    ) -> RunRecord:
        now = self._clock.now()
        parent = self._parent(who, submission, workspace)
        target = INTERACTIVE_TARGET if submission.is_interactive else submission.definition.target
        properties = dict(submission.properties)
        if snapshot is not None:
            properties[SNAPSHOT_PROPERTY] = snapshot.id
        if not submission.is_interactive:
            properties.setdefault("_azureml.ComputeTargetType", "local" if target == "local" else "amlcompute")
        return RunRecord(
            id=run_id,
            workspace=workspace,
            experiment=experiment,
            number=0,
            status=RunStatus.RUNNING if submission.is_interactive else RunStatus.NOT_STARTED,
            created_at=now,
            started_at=now if submission.is_interactive else None,
            type=submission.type,
            target=target,
            display_name=submission.display_name,
            parent_id=parent.id if parent else None,
            root_id=(parent.root_id or parent.id) if parent else run_id,
            snapshot_id=snapshot.id if snapshot else None,
            definition=_definition(submission),
            tags=dict(submission.tags),
            properties=properties,
            created_by=who.name,
        )

    def _parent(self, who: Principal, submission: Submission, workspace: str) -> RunRecord | None:
        if submission.parent_id is None:
            return None
        try:
            parent = self._runs.get(submission.parent_id)
        except NotFound:
            parent = None
        if parent is None or parent.workspace != workspace:
            raise NotFound(
                f"There is no run {submission.parent_id!r} in workspace {workspace!r}.", hint="Check the parent run."
            )
        self._access.record(who, Action.WRITE_RUN, parent)
        self._kinds.of(parent).check_child(parent)
        if not submission.is_interactive and parent.status in CANCELED:
            raise Conflict(f"The parent run {parent.id!r} was canceled, and its children with it.")
        return parent


def _definition(submission: Submission) -> RunDefinition:
    if submission.outputs_of is None:
        return submission.definition
    return submission.definition.with_runyard(outputs_of=submission.outputs_of)


def check_no_foreign_outputs(definition: RunDefinition) -> None:
    """Raise InvalidArgument if a submitter asks for the outputs of another run: it may be one they cannot read."""
    if OUTPUTS_OF in definition.runyard.raw:
        raise InvalidArgument(
            f"'runyard.{OUTPUTS_OF}' cannot be given with a run: it is set for the children that a sweep resumes.",
            hint="Give resume_child_runs of a HyperDriveConfig, or read the files by Run.download_files().",
        )


def check_nodes(definition: RunDefinition, target: str, *, max_nodes: int) -> None:
    """Raise InvalidArgument for counts that make no sense or that the target can never provide."""
    count = definition.node_count
    if count > max_nodes:
        raise InvalidArgument(
            f"node_count must be at most {max_nodes} on {target!r}, got {count}.",
            hint="Lower it or choose a larger target.",
        )
    distribution_of(definition)


def check_script(definition: RunDefinition, entries: Iterable[FileEntry]) -> None:
    """Raise InvalidArgument unless the script is a file of the snapshot, or there is a command instead."""
    if definition.command:
        return
    script = definition.script
    if not script:
        raise InvalidArgument("The run has neither a script nor a command.", hint="Give script= or command=.")
    path = check_relative_path(script.replace("\\", "/"), "script")
    if path.lower().endswith(".ipynb"):
        raise InvalidArgument(
            f"The script {script!r} is a notebook, which Python cannot run.",
            hint="Make a script of it: jupyter nbconvert --to script NOTEBOOK; and submit that.",
        )
    present = [entry.path for entry in entries]
    if path not in present:
        python_files = [name for name in present if name.endswith(".py")][:10]
        there = f" Python files there: {', '.join(python_files)}." if python_files else ""
        raise InvalidArgument(
            f"The script {script!r} is not in the source_directory.{there}",
            hint="Give its path relative to source_directory, and check that no ignore file leaves it out.",
        )
