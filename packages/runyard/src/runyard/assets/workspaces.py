import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runyard.access.authorization import Access
from runyard.core.errors import AlreadyExists, Conflict, NotFound
from runyard.core.names import check_experiment_name, check_workspace_name
from runyard.core.policy import Action
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import AssetStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.assets import AssetKind, Experiment, Workspace
from runyard.core.records.data import DEFAULT_DATASTORE

# Scripts get these as variables, where an empty value would mean "not in a run".
LOCAL_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
LOCAL_RESOURCE_GROUP = "local"
FIRST_DATASTORES = {DEFAULT_DATASTORE: "AzureBlob", "workspacefilestore": "AzureFile"}


@dataclass(frozen=True)
class NewWorkspace:
    """Options of a new workspace."""

    subscription_id: str = ""
    resource_group: str = ""
    location: str = "local"
    friendly_name: str = ""
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExperimentChanges:
    """Changes of an experiment. None keeps a field; tags are merged, and a tag set to None is removed."""

    tags: Mapping[str, str | None] = field(default_factory=dict)
    description: str | None = None
    archived: bool | None = None


class Workspaces:
    """Workspaces and their experiments."""

    def __init__(self, assets: AssetStore, runs: RunStore, clock: Clock, access: Access) -> None:
        self._assets, self._runs, self._clock, self._access = assets, runs, clock, access
        self._creating = threading.Lock()
        self._delete_listeners: list[Callable[[str], None]] = []

    def on_delete(self, listener: Callable[[str], None]) -> None:
        """Call `listener(name)` for every workspace that was deleted."""
        self._delete_listeners.append(listener)

    def create(self, who: Principal, name: str, given: NewWorkspace, *, exist_ok: bool) -> Workspace:
        """Create the workspace with its two datastores. Raises AlreadyExists unless `exist_ok`; safe to repeat."""
        self._access.workspace(who, Action.CHANGE_WORKSPACE, name)
        check_workspace_name(name)
        with self._creating:
            try:
                made = self._assets.create_workspace(self._new(name, given))
            except AlreadyExists:
                if not exist_ok:
                    raise
                made = self._assets.get_workspace(name)
            self._ensure_datastores(name, who.name)
        return made

    def enter(self, who: Principal, action: Action, name: str) -> Workspace:
        """The workspace, after a check that the caller may do this action in it. Raises NotFound that lists the
        workspaces the caller may see."""
        self._access.workspace(who, action, name)
        try:
            return self._assets.get_workspace(check_workspace_name(name))
        except NotFound:
            known = ", ".join(f"'{workspace.name}'" for workspace in self.list(who)[:20]) or "none"
            raise NotFound(
                f"There is no workspace {name!r}. Known: {known}.", hint="Make it with Workspace.create(name=...)."
            ) from None

    def get(self, who: Principal, name: str) -> Workspace:
        return self.enter(who, Action.READ_WORKSPACE, name)

    def list(self, who: Principal) -> Sequence[Workspace]:
        """Workspaces that the caller may read."""
        self._access.service(who, Action.LIST_WORKSPACES)
        may_read = self._access.may_read_workspace
        return [workspace for workspace in self._assets.list_workspaces() if may_read(who, workspace.name)]

    def delete(self, who: Principal, name: str) -> None:
        """Delete the workspace; its datastore folders stay on disk. Does nothing if it is gone. Raises Conflict while
        it has unfinished runs or web services."""
        self._access.workspace(who, Action.CHANGE_WORKSPACE, name)
        going_on = [run.id for run in self._runs.unfinished() if run.workspace == name]
        if going_on:
            raise Conflict(
                f"Workspace {name!r} has {len(going_on)} unfinished runs, {going_on[0]} among them.",
                hint="Cancel them or wait, then delete it.",
            )
        deployed = [service.name for service in self._assets.list(name, AssetKind.WEB_SERVICE)]
        if deployed:
            raise Conflict(
                f"Workspace {name!r} has {len(deployed)} web services, {deployed[0]} among them.",
                hint="Delete them first.",
            )
        self._assets.delete_workspace(name)
        for listener in self._delete_listeners:
            listener(name)

    def ensure_experiment(self, who: Principal, workspace: str, name: str) -> Experiment:
        self.enter(who, Action.CREATE_EXPERIMENT, workspace)
        check_experiment_name(name)
        return self._assets.ensure_experiment(workspace, name)

    def list_experiments(self, who: Principal, workspace: str) -> Sequence[Experiment]:
        self.get(who, workspace)
        return self._assets.list_experiments(workspace)

    def change_experiment(self, who: Principal, workspace: str, name: str, changes: ExperimentChanges) -> Experiment:
        self.enter(who, Action.CREATE_EXPERIMENT, workspace)
        seen = self.get_experiment(who, workspace, name)
        tags = {**seen.tags, **changes.tags}
        archived_at = seen.archived_at
        if changes.archived is not None:
            archived_at = (seen.archived_at or self._clock.now()) if changes.archived else None
        changed = replace(
            seen,
            tags={key: value for key, value in tags.items() if value is not None},
            description=seen.description if changes.description is None else changes.description,
            archived_at=archived_at,
        )
        self._assets.update_experiment(changed)
        return changed

    def delete_experiment(self, who: Principal, workspace: str, name: str) -> None:
        """Does nothing if it is gone. Raises Conflict while it has runs; see `Runs.delete_of_experiment`."""
        self.enter(who, Action.DELETE_EXPERIMENT, workspace)
        self._assets.delete_experiment(workspace, name)

    def get_experiment(self, who: Principal, workspace: str, name: str) -> Experiment:
        for experiment in self.list_experiments(who, workspace):
            if experiment.name == name:
                return experiment
        raise NotFound(f"There is no experiment {name!r} in workspace {workspace!r}.")

    def _new(self, name: str, given: NewWorkspace) -> Workspace:
        return Workspace(
            name=name,
            id=str(uuid.uuid4()),
            subscription_id=given.subscription_id or LOCAL_SUBSCRIPTION,
            resource_group=given.resource_group or LOCAL_RESOURCE_GROUP,
            location=given.location or "local",
            created_at=self._clock.now(),
            friendly_name=given.friendly_name or name,
            description=given.description,
            tags=dict(given.tags),
        )

    def _ensure_datastores(self, workspace: str, created_by: str) -> None:
        there = {store.name: store for store in self._assets.list(workspace, AssetKind.DATASTORE)}
        for name, v1_type in FIRST_DATASTORES.items():
            body: dict[str, Any] = {"kind": "workspace", "settings": {}, "credential_type": "None", "v1_type": v1_type}
            if name not in there:
                body["is_default"] = name == DEFAULT_DATASTORE
                self._assets.add(workspace, AssetKind.DATASTORE, name, body, {}, created_by)
            elif "kind" not in there[name].body:  # written by the first release
                body["is_default"] = bool(there[name].body.get("is_default"))
                self._assets.replace(there[name], body, there[name].tags)
