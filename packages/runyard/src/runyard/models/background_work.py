import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from runyard.access.authorization import Access
from runyard.core.errors import Conflict, NotFound, RunyardError
from runyard.core.lookups import find_asset
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
WriteLine = Callable[[str], None]
Work = Callable[[WriteLine], Mapping[str, Any]]
"""Gets a function that adds a line to the log; the result is merged into the body of the asset."""


@dataclass(frozen=True)
class WorkRecord:
    asset: Asset
    log: str

    @property
    def is_running(self) -> bool:
        return bool(self.asset.body["state"] == RUNNING)


class BackgroundWork:
    """Runs work of one kind in threads, after the request was answered. An asset stores its state, log and result.

    At most `at_once` run at a time; others wait.
    """

    def __init__(self, assets: AssetStore, access: Access, kind: AssetKind, noun: str, *, at_once: int) -> None:
        self._assets, self._access, self._kind, self._noun = assets, access, kind, noun
        self._turns = threading.BoundedSemaphore(at_once)
        self._changed = threading.Condition()
        self._logs: dict[str, list[str]] = {}

    def begin(self, who: Principal, workspace: str, name: str, body: Mapping[str, Any], work: Work) -> WorkRecord:
        """Start work; the asset of finished work of that name is replaced. Raises Conflict while it is running."""
        with self._changed:
            seen = self._find(workspace, name)
            if seen is not None:
                self._access.asset(who, Action.CHANGE_ASSET, seen)
            if seen is not None and seen.body["state"] == RUNNING:
                raise Conflict(f"The {self._noun} {name!r} is being made.", hint="Wait for it, or take another name.")
            running = {**body, "state": RUNNING, "error": None, "log": ""}
            asset = (
                self._assets.replace(seen, running, seen.tags)
                if seen
                else self._assets.add(workspace, self._kind, name, running, {}, who.name)
            )
            self._logs[asset.id] = []
        # Daemon threads: the service exits without waiting; its next start marks the work as failed.
        threading.Thread(target=self._run, args=(asset, work), name=self._noun, daemon=True).start()
        return self.get(workspace, name)

    def get(self, workspace: str, name: str) -> WorkRecord:
        found = self._find(workspace, name)
        if found is None:
            raise NotFound(f"There is no {self._noun} {name!r} in workspace {workspace!r}.")
        lines = self._logs.get(found.id)
        return WorkRecord(found, found.body["log"] if lines is None else "".join(lines))

    def wait(self, workspace: str, name: str, revision: int, seconds: float) -> WorkRecord:
        """Wait for the end of the work, a revision above the given one, or the end of the time; then `get`."""
        ends_at = monotonic() + seconds
        with self._changed:
            found = self.get(workspace, name)
            while found.is_running and found.asset.revision <= revision and (left := ends_at - monotonic()) > 0:
                self._changed.wait(left)
                found = self.get(workspace, name)
        return found

    def fail_interrupted(self) -> None:
        """Mark work that a killed service left running as failed. Call it once, at the start of the service."""
        for workspace in self._assets.list_workspaces():
            for asset in self._assets.list(workspace.name, self._kind, latest_only=True):
                if asset.body["state"] == RUNNING and asset.id not in self._logs:
                    error = {"problem": "The service ended meanwhile.", "hint": "Start it again."}
                    self._assets.replace(asset, {**asset.body, "state": FAILED, "error": error}, asset.tags)

    def _run(self, asset: Asset, work: Work) -> None:
        lines = self._logs[asset.id]
        with self._turns:
            try:
                ended = {**work(lambda line: lines.append(f"{line}\n")), "state": SUCCEEDED}
            except RunyardError as error:
                ended = {"state": FAILED, "error": {"problem": error.problem, "hint": error.hint, **error.facts}}
            except Exception as error:  # the thread has no caller: the error goes into the asset
                ended = {"state": FAILED, "error": {"problem": f"{type(error).__name__}: {error}.", "hint": ""}}
        with self._changed:
            with suppress(Conflict, NotFound):  # its workspace was deleted
                self._assets.replace(asset, {**asset.body, **ended, "log": "".join(lines)}, asset.tags)
            self._logs.pop(asset.id, None)
            self._changed.notify_all()

    def _find(self, workspace: str, name: str) -> Asset | None:
        return find_asset(self._assets, workspace, self._kind, name)
