"""Asks the policy about things that stores know. Use cases ask here before they do anything."""

from collections.abc import Callable
from dataclasses import replace

from runyard.core.policy import SERVICE_ITSELF, Action, Resource, may, require, require_right
from runyard.core.principal import Principal, Role
from runyard.errors import AttemptOver, Forbidden, NotFound, Unauthorized
from runyard.model.assets import Asset
from runyard.model.runs import AttemptId, RunId, RunRecord
from runyard.ports.stores import AssetStore, RunStore
from runyard.runs.attempt_fence import AttemptFence
from runyard.runs.children import is_descendant
from runyard.services.data.node_reach import NodeReach

_EVERY_BLOB = Resource("every blob")


class Access:
    """Every method raises Forbidden where the caller may not, and AttemptOver for who speaks for an attempt that is
    over: it has nothing to read or to write any more."""

    def __init__(self, runs: RunStore, assets: AssetStore, fence: AttemptFence) -> None:
        self._runs, self._fence, self._reach = runs, fence, NodeReach(runs, assets)

    def placed(self, who: Principal) -> Principal:
        """The caller as its token says, a script's with its workspace. Raises Unauthorized once its run has ended or is
        gone, and AttemptOver once another attempt of it has begun. A node is not looked up: its requests are many,
        and each asks the fence."""
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
        """Raises AttemptOver for who speaks for an attempt that is over. It may read the database."""
        self._check_attempt(who)

    def right(self, who: Principal, action: Action) -> None:
        """Raises Forbidden for who may do that to nothing. Reads no store."""
        require_right(who, action)

    def service(self, who: Principal, action: Action) -> None:
        if action is Action.SEE_SERVICE:  # a node whose attempt is over still finds its service
            require(who, action, SERVICE_ITSELF)
        else:
            self._require(who, action, SERVICE_ITSELF)

    def workspace(self, who: Principal, action: Action, name: str) -> None:
        self._require(who, action, Resource(f"workspace {name!r}", workspace=name))

    def may_read_workspace(self, who: Principal, name: str) -> bool:
        return may(who, Action.READ_WORKSPACE, Resource(name, workspace=name))

    def run(self, who: Principal, action: Action, run_id: RunId) -> RunRecord:
        """The run, which the caller may do that with. NotFound where there is none."""
        require_right(who, action)
        self._check_attempt(who)
        run = self._runs.get(run_id)
        require(who, action, self._resource(run))
        return run

    def reach(self, who: Principal, action: Action, run_id: RunId) -> None:
        """The same for use cases that do not need the record. Asks no store for the caller's own run, nor for a caller
        who may do everything: then nobody has looked whether there is such a run."""
        require_right(who, action)
        self._check_attempt(who)
        own = who.workspace if who.run_id == run_id else None
        if not may(who, action, Resource(f"run {run_id}", workspace=own, run_id=run_id)):
            require(who, action, self._resource(self._runs.get(run_id)))

    def record(self, who: Principal, action: Action, run: RunRecord) -> None:
        """The same of a run that was read before."""
        self._require(who, action, self._resource(run))

    def may_read_run(self, who: Principal, run_id: RunId) -> bool:
        """False also where there is none."""
        try:
            self.run(who, Action.READ_RUN, run_id)
        except (NotFound, Forbidden):
            return False
        return True

    def attempt(self, who: Principal, action: Action, attempt_id: AttemptId) -> None:
        require(who, action, Resource(f"attempt {attempt_id}", attempt_id=attempt_id))
        if action is not Action.REPORT_ATTEMPT:  # answered though the attempt is over: the answer tells it to stop
            self._check_attempt(who)

    def asset(self, who: Principal, action: Action, asset: Asset) -> Asset:
        self._require(who, action, self._made_thing(f"{asset.kind.value[:-1]} {asset.name!r}", asset))
        return asset

    def may_change(self, who: Principal, asset: Asset) -> bool:
        return may(who, Action.CHANGE_ASSET, self._made_thing(asset.name, asset))

    def may_open_folders(self, who: Principal) -> bool:
        return may(who, Action.OPEN_FOLDERS, SERVICE_ITSELF)

    def may_read_every_credential(self, who: Principal) -> bool:
        """The operator's own among them, which open the data of all workspaces."""
        return may(who, Action.READ_CREDENTIALS, SERVICE_ITSELF)

    def may_read_every_blob(self, who: Principal) -> bool:
        return may(who, Action.READ_BLOB, _EVERY_BLOB)

    def sees(self, who: Principal, action: Action, name: str, is_shown: Callable[[], bool]) -> bool:
        """For what is hidden from whom it is not shown to, instead of refused. Who may see none at all is refused."""
        require_right(who, action)
        self._check_attempt(who)
        return may(who, action, Resource(name, is_its_data=is_shown))

    def files(self, who: Principal, action: Action, workspace: str, datastore: str, path: str) -> None:
        """`path` is that of a file, or what the paths of a listing begin with."""
        self._require(who, action, self._place(who, action, workspace, datastore, path))

    def some_files(self, who: Principal, action: Action, workspace: str, datastore: str) -> None:
        """To be asked before the paths are known; each of them is asked about with `files` then."""
        self._require(who, action, self._place(who, action, workspace, datastore, None))

    def may_read_file(self, who: Principal, workspace: str, datastore: str, path: str) -> bool:
        """ "" is all of the datastore."""
        return may(who, Action.READ_FILES, self._place(who, Action.READ_FILES, workspace, datastore, path))

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
            is_below=lambda ancestor: is_descendant(self._runs, run, RunId(ancestor)),
        )

    def _made_thing(self, name: str, asset: Asset) -> Resource:
        """Who made it is told by the maker's record, not by its id alone: that of a run which is gone may be given to
        another."""
        return Resource(
            name,
            workspace=asset.workspace,
            is_below=lambda ancestor: self._was_made_below(asset, RunId(ancestor)),
        )

    def _was_made_below(self, asset: Asset, ancestor: RunId) -> bool:
        role, _, run_id = asset.created_by.partition(":")
        if role != "run":
            return False
        try:
            maker = self._runs.get(RunId(run_id))
            return maker.created_at <= asset.created_at and is_descendant(self._runs, maker, ancestor)
        except NotFound:
            return False

    def _place(self, who: Principal, action: Action, workspace: str, datastore: str, path: str | None) -> Resource:
        def is_declared() -> bool:
            assert who.run_id is not None
            writes = action is not Action.READ_FILES
            return self._reach.allows(who.run_id, workspace, datastore, path, writes=writes)

        name = f"datastore {datastore!r}" if path is None else f"{path!r} in datastore {datastore!r}"
        return Resource(name, workspace=workspace, is_its_data=is_declared)
