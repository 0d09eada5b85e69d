"""Applies the policy to runs, assets and files of the stores. Every use case calls it before it does anything."""

from collections.abc import Callable
from dataclasses import replace

from runyard.access.attempt_fence import AttemptFence
from runyard.access.node_data import NodeDataAccess
from runyard.core.errors import AttemptOver, Forbidden, NotFound, Unauthorized
from runyard.core.policy import SERVICE_ITSELF, Action, Resource, may, require, require_right
from runyard.core.ports.stores import AssetStore, RunStore
from runyard.core.principal import Principal, Role
from runyard.core.records.assets import Asset
from runyard.core.records.runs import AttemptId, RunId, RunRecord

_EVERY_BLOB = Resource("every blob")


class Access:
    """Every method raises Forbidden if the policy does not allow the action, and AttemptOver if the caller's attempt is
    over."""

    def __init__(self, runs: RunStore, assets: AssetStore, fence: AttemptFence) -> None:
        self._runs, self._fence, self._reach = runs, fence, NodeDataAccess(runs, assets)

    def placed(self, who: Principal) -> Principal:
        """The caller with its workspace filled in, if it is a script.

        Raises Unauthorized if its run has ended or is gone, and AttemptOver if a newer attempt has begun. A node is not
        looked up: it sends many requests, and each is checked by the fence.
        """
        if who.role is not Role.RUN:
            return who
        assert who.run_id is not None
        try:
            run = self._runs.get(who.run_id)
        except NotFound:
            raise Unauthorized(f"Run {who.run_id} is gone, and its token with it.") from None
        if run.status.is_terminal:
            raise Unauthorized(f"Run {who.run_id} has ended, and its token with it.")
        if who.attempt_id != run.ticket:
            raise AttemptOver(f"Attempt {who.attempt_id} was given up: run {run.id} goes on elsewhere.")
        return replace(who, workspace=run.workspace)

    def living(self, who: Principal) -> None:
        """Raises AttemptOver if the caller's attempt is over. It may read the database."""
        self._check_attempt(who)

    def right(self, who: Principal, action: Action) -> None:
        """Raises Forbidden if the caller may apply the action to no resource at all. Reads no store."""
        require_right(who, action)

    def service(self, who: Principal, action: Action) -> None:
        if action is Action.SEE_SERVICE:  # allowed for a node whose attempt is over
            require(who, action, SERVICE_ITSELF)
        else:
            self._require(who, action, SERVICE_ITSELF)

    def workspace(self, who: Principal, action: Action, name: str) -> None:
        self._require(who, action, Resource(f"workspace {name!r}", workspace=name))

    def may_read_workspace(self, who: Principal, name: str) -> bool:
        return may(who, Action.READ_WORKSPACE, Resource(name, workspace=name))

    def run(self, who: Principal, action: Action, run_id: RunId) -> RunRecord:
        """The run, after a check that the caller may apply the action to it. Raises NotFound."""
        require_right(who, action)
        self._check_attempt(who)
        run = self._runs.get(run_id)
        require(who, action, self._resource(run))
        return run

    def reach(self, who: Principal, action: Action, run_id: RunId) -> None:
        """The same for use cases that do not need the record. Reads no store for the caller's own run, nor for a caller
        who may do everything, so the run may not exist."""
        require_right(who, action)
        self._check_attempt(who)
        own = who.workspace if who.run_id == run_id else None
        if not may(who, action, Resource(f"run {run_id}", workspace=own, run_id=run_id)):
            require(who, action, self._resource(self._runs.get(run_id)))

    def record(self, who: Principal, action: Action, run: RunRecord) -> None:
        """The same for a run that was already read."""
        self._require(who, action, self._resource(run))

    def may_read_run(self, who: Principal, run_id: RunId) -> bool:
        """False also if the run does not exist."""
        try:
            self.run(who, Action.READ_RUN, run_id)
        except (NotFound, Forbidden):
            return False
        return True

    def attempt(self, who: Principal, action: Action, attempt_id: AttemptId) -> None:
        require(who, action, Resource(f"attempt {attempt_id}", attempt_id=attempt_id))
        if action is not Action.REPORT_ATTEMPT:  # allowed after the attempt is over: the answer tells it to stop
            self._check_attempt(who)

    def asset(self, who: Principal, action: Action, asset: Asset) -> Asset:
        self._require(who, action, self._asset_resource(f"{asset.kind.value[:-1]} {asset.name!r}", asset))
        return asset

    def may_change(self, who: Principal, asset: Asset) -> bool:
        return may(who, Action.CHANGE_ASSET, self._asset_resource(asset.name, asset))

    def may_open_folders(self, who: Principal) -> bool:
        return may(who, Action.OPEN_FOLDERS, SERVICE_ITSELF)

    def may_read_every_credential(self, who: Principal) -> bool:
        """Includes the operator's own credentials, which open the data of all workspaces."""
        return may(who, Action.READ_CREDENTIALS, SERVICE_ITSELF)

    def may_read_every_blob(self, who: Principal) -> bool:
        return may(who, Action.READ_BLOB, _EVERY_BLOB)

    def sees(self, who: Principal, action: Action, name: str, is_shown: Callable[[], bool]) -> bool:
        """False if the resource must be hidden from the caller, as if it did not exist. Raises Forbidden if the caller
        may see none at all."""
        require_right(who, action)
        self._check_attempt(who)
        return may(who, action, Resource(name, is_its_data=is_shown))

    def files(self, who: Principal, action: Action, workspace: str, datastore: str, path: str) -> None:
        """`path` is the path of a file, or the prefix of a listing."""
        self._require(who, action, self._data_scope(who, action, workspace, datastore, path))

    def some_files(self, who: Principal, action: Action, workspace: str, datastore: str) -> None:
        """Check before the paths are known; call `files` for each path afterwards."""
        self._require(who, action, self._data_scope(who, action, workspace, datastore, None))

    def may_read_file(self, who: Principal, workspace: str, datastore: str, path: str) -> bool:
        """`path` "" means the whole datastore."""
        return may(who, Action.READ_FILES, self._data_scope(who, Action.READ_FILES, workspace, datastore, path))

    def _require(self, who: Principal, action: Action, on: Resource) -> None:
        require_right(who, action)
        self._check_attempt(who)
        require(who, action, on)

    def _check_attempt(self, who: Principal) -> None:
        if who.attempt_id is not None:
            self._fence.check(who.attempt_id)

    def _resource(self, run: RunRecord) -> Resource:
        return Resource(
            f"run {run.id}",
            workspace=run.workspace,
            run_id=run.id,
            created_by=run.created_by,
            is_below=lambda ancestor: _is_descendant(self._runs, run, RunId(ancestor)),
        )

    def _asset_resource(self, name: str, asset: Asset) -> Resource:
        """Checks the creator's record, not only its id: the id of a deleted run may be reused."""
        return Resource(
            name,
            workspace=asset.workspace,
            is_below=lambda ancestor: self._was_created_below(asset, RunId(ancestor)),
        )

    def _was_created_below(self, asset: Asset, ancestor: RunId) -> bool:
        role, _, run_id = asset.created_by.partition(":")
        if role != "run":
            return False
        try:
            maker = self._runs.get(RunId(run_id))
            return maker.created_at <= asset.created_at and _is_descendant(self._runs, maker, ancestor)
        except NotFound:
            return False

    def _data_scope(self, who: Principal, action: Action, workspace: str, datastore: str, path: str | None) -> Resource:
        def is_declared() -> bool:
            assert who.run_id is not None
            writes = action is not Action.READ_FILES
            return self._reach.allows(who.run_id, workspace, datastore, path, writes=writes)

        name = f"datastore {datastore!r}" if path is None else f"{path!r} in datastore {datastore!r}"
        return Resource(name, workspace=workspace, is_its_data=is_declared)


def _is_descendant(runs: RunStore, run: RunRecord, ancestor_id: RunId) -> bool:
    """True for the ancestor itself, its children, their children and so on."""
    while run.id != ancestor_id:
        if run.parent_id is None:
            return False
        run = runs.get(run.parent_id)
    return True
