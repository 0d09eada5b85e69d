from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from runyard.core.definitions.run import EMPTY, RunDefinition
from runyard.core.definitions.sweep import SweepSpec
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.errors import AlreadyExists, Conflict, InvalidArgument, NotFound
from runyard.model.assets import AssetKind
from runyard.model.files import FileEntry, Snapshot
from runyard.model.names import check_experiment_name, check_run_id
from runyard.model.runs import INTERACTIVE_TARGET, RunId, RunRecord, RunStatus
from runyard.ports.clock import Clock
from runyard.ports.stores import AssetStore, RunStore
from runyard.runs.definition import check_no_others_outputs, check_nodes, check_script
from runyard.runs.direct_inputs import DirectInputs
from runyard.runs.run_environments import RunEnvironments
from runyard.runs.scheduling.controller import Controller
from runyard.runs.scheduling.places import UNMANAGED_TARGETS, Places
from runyard.runs.snapshots import Snapshots
from runyard.services.access import Access
from runyard.services.data.data_named import planned_data, require_data, require_dataset
from runyard.services.workspaces import Workspaces

SNAPSHOT_PROPERTY = "ContentSnapshotId"
SERVES_ONLY = "AKS"
"""Type of compute targets that take web services but no runs."""
CANCELED = frozenset({RunStatus.CANCEL_REQUESTED, RunStatus.CANCELED})


@dataclass(frozen=True)
class Submission:
    """A run to submit. `snapshot` is None for a run without files."""

    run_id: str
    definition: RunDefinition = EMPTY
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


class Submissions:
    def __init__(
        self,
        workspaces: Workspaces,
        runs: RunStore,
        assets: AssetStore,
        snapshots: Snapshots,
        inputs: DirectInputs,
        environments: RunEnvironments,
        clusters: Places,
        controller: Controller,
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
        check_no_others_outputs(submission.definition)
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
        items = planned_data(self._assets, workspace, submission.run_id, submission.definition)
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
