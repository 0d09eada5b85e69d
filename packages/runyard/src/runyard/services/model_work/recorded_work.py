import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.errors import Conflict, NotFound, RunyardError
from runyard.model.assets import Asset, AssetKind
from runyard.ports.stores import AssetStore
from runyard.services.access import Access

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
Say = Callable[[str], None]
Work = Callable[[Say], Mapping[str, Any]]
"""Takes a way to add a line to the log; what it returns joins the body of the asset."""


@dataclass(frozen=True)
class Recorded:
    asset: Asset
    log: str

    @property
    def is_running(self) -> bool:
        return bool(self.asset.body["state"] == RUNNING)


class RecordedWork:
    """Work of one kind that goes on after its request was answered. An asset says how far it is and how it ended.

    No more than `at_once` are worked on at a time; the others wait for their turn.
    """

    def __init__(self, assets: AssetStore, access: Access, kind: AssetKind, noun: str, *, at_once: int) -> None:
        self._assets, self._access, self._kind, self._noun = assets, access, kind, noun
        self._turns = threading.BoundedSemaphore(at_once)
        self._changed = threading.Condition()
        self._logs: dict[str, list[str]] = {}

    def begin(self, who: Principal, workspace: str, name: str, body: Mapping[str, Any], work: Work) -> Recorded:
        """Raises Conflict while work of that name goes on; what an ended one left is replaced, where the caller may."""
        with self._changed:
            seen = self._find(workspace, name)
            if seen is not None:
                self._access.asset(who, Action.CHANGE_ASSET, seen)
            if seen is not None and seen.body["state"] == RUNNING:
                raise Conflict(f"The {self._noun} {name!r} is being made.", hint="Wait for it, or take another name.")
            made = {**body, "state": RUNNING, "error": None, "log": ""}
            asset = (
                self._assets.replace(seen, made, seen.tags)
                if seen
                else self._assets.add(workspace, self._kind, name, made, {}, who.name)
            )
            self._logs[asset.id] = []
        # Daemons: a service that ends does not wait for them, and says at its next start that they broke off.
        threading.Thread(target=self._do, args=(asset, work), name=self._noun, daemon=True).start()
        return self.get(workspace, name)

    def get(self, workspace: str, name: str) -> Recorded:
        found = self._find(workspace, name)
        if found is None:
            raise NotFound(f"There is no {self._noun} {name!r} in workspace {workspace!r}.")
        lines = self._logs.get(found.id)
        return Recorded(found, found.body["log"] if lines is None else "".join(lines))

    def wait(self, workspace: str, name: str, revision: int, seconds: float) -> Recorded:
        """As `get`, once the asset's revision is above that, or after that long."""
        ends_at = monotonic() + seconds
        with self._changed:
            found = self.get(workspace, name)
            while found.asset.revision <= revision and (left := ends_at - monotonic()) > 0:
                self._changed.wait(left)
                found = self.get(workspace, name)
        return found

    def fail_interrupted(self) -> None:
        """Say of what a killed service left running that it broke off. Only for one that has just begun."""
        for workspace in self._assets.list_workspaces():
            for asset in self._assets.list(workspace.name, self._kind, latest_only=True):
                if asset.body["state"] == RUNNING and asset.id not in self._logs:
                    error = {"problem": "The service ended meanwhile.", "hint": "Start it again."}
                    self._assets.replace(asset, {**asset.body, "state": FAILED, "error": error}, asset.tags)

    def _do(self, asset: Asset, work: Work) -> None:
        lines = self._logs[asset.id]
        with self._turns:
            try:
                ended = {**work(lambda line: lines.append(f"{line}\n")), "state": SUCCEEDED}
            except RunyardError as error:
                ended = {"state": FAILED, "error": {"problem": error.problem, "hint": error.hint, **error.facts}}
            except Exception as error:  # nobody waits for this thread: the asset must tell
                ended = {"state": FAILED, "error": {"problem": f"{type(error).__name__}: {error}.", "hint": ""}}
        with self._changed:
            with suppress(Conflict, NotFound):  # deleted meanwhile, with its workspace
                self._assets.replace(asset, {**asset.body, **ended, "log": "".join(lines)}, asset.tags)
            self._logs.pop(asset.id, None)
            self._changed.notify_all()

    def _find(self, workspace: str, name: str) -> Asset | None:
        try:
            return self._assets.get(workspace, self._kind, name)
        except NotFound:
            return None
