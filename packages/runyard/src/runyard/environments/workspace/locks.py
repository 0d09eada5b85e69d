import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from runyard.access.authorization import Access
from runyard.access.blobs import CallerBlobs
from runyard.core.errors import BlobsMissing, Conflict, InvalidArgument, NotFound
from runyard.core.lookups import find_asset
from runyard.core.names import check_sha256
from runyard.core.policy import Action
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import AssetStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.runs import AttemptId, run_of

LOCK = AssetKind.ENVIRONMENT_LOCK
KEY = re.compile(r"[0-9a-f]{24}")
PYTHON = re.compile(r"3\.\d{1,2}")
WHEEL = re.compile(r"[A-Za-z0-9][\w.+!-]{0,200}\.whl")
MARK_USED_EVERY = timedelta(days=1)


@dataclass(frozen=True)
class StoredWheel:
    key: str
    """Key of the machine and packages that it was compiled for."""
    file_name: str
    sha256: str


@dataclass(frozen=True)
class StoredEnvironment:
    """Lock and wheels of an environment that a node has built, for other nodes."""

    python: str
    lock: str
    wheels: tuple[StoredWheel, ...] = ()


class EnvironmentLocks:
    """Stores locks and compiled wheels of environments, for nodes that share no files with the service.

    Stored per workspace, so that a node cannot change the environments of other workspaces.
    """

    def __init__(self, runs: RunStore, assets: AssetStore, blobs: CallerBlobs, clock: Clock, access: Access) -> None:
        self._access = access
        self._runs, self._assets, self._blobs, self._clock = runs, assets, blobs, clock

    def known(self, workspace: str, key: str) -> bool:
        """Whether a node can build it without resolving or compiling."""
        return self._find(workspace, key) is not None

    def python_of(self, workspace: str, key: str) -> str:
        """Minor version of its Python; "" if no node has built it."""
        stored = self._find(workspace, key)
        return "" if stored is None else str(stored.body["python"])

    def get(self, who: Principal, attempt_id: AttemptId, key: str) -> StoredEnvironment:
        """The stored lock and wheels, marked as used. Raises NotFound if no node has built it yet."""
        self._access.attempt(who, Action.SERVE_ATTEMPT, attempt_id)
        stored = self._find(self._workspace(attempt_id), _checked(KEY, key, "key"))
        if stored is None:
            raise NotFound(f"No node has made the environment {key} yet.")
        if self._clock.now() - stored.modified_at > MARK_USED_EVERY:
            with suppress(Conflict):
                self._assets.replace(stored, stored.body, stored.tags)
        return _from_body(stored.body)

    def put(self, who: Principal, attempt_id: AttemptId, key: str, built: StoredEnvironment) -> None:
        """Store what a node has built. Safe to repeat.

        The first lock and the first wheel of a key stay, so that no node changes what others install; a forced build
        replaces them. Raises BlobsMissing for wheels that were not uploaded before.
        """
        self._access.attempt(who, Action.SERVE_ATTEMPT, attempt_id)
        _check(built)
        missing = self._blobs.missing(who, [wheel.sha256 for wheel in built.wheels])
        if missing:
            raise BlobsMissing("The wheels are not here yet.", hint="Send them, then ask again.", sha256=missing)
        run, name = self._runs.get(run_of(attempt_id)), _checked(KEY, key, "key")
        while True:
            stored = self._find(run.workspace, name)
            if stored is None:
                self._assets.add(run.workspace, LOCK, name, _to_body(built), {}, who.name)
                return
            body = _to_body(built if run.definition.runyard.is_forced_build else _added(_from_body(stored.body), built))
            if body == stored.body:
                return
            with suppress(Conflict):
                self._assets.replace(stored, body, stored.tags)
                return

    def prune(self, older_than: timedelta) -> list[str]:
        """Delete records unused for that long; return their keys. Their wheel blobs become garbage."""
        before = self._clock.now() - older_than
        forgotten = []
        for workspace in self._assets.list_workspaces():
            for kept in self._assets.list(workspace.name, LOCK, latest_only=True):
                if kept.modified_at < before:
                    self._assets.delete(workspace.name, LOCK, kept.name)
                    forgotten.append(kept.name)
        return forgotten

    def _workspace(self, attempt_id: AttemptId) -> str:
        return self._runs.get(run_of(attempt_id)).workspace

    def _find(self, workspace: str, key: str) -> Asset | None:
        return find_asset(self._assets, workspace, LOCK, key)


def _check(built: StoredEnvironment) -> None:
    _checked(PYTHON, built.python, "python")
    for wheel in built.wheels:
        _checked(KEY, wheel.key, "wheels")
        _checked(WHEEL, wheel.file_name, "wheels")
        check_sha256(wheel.sha256)


def _checked(pattern: re.Pattern[str], value: str, argument: str) -> str:
    if not pattern.fullmatch(value):
        raise InvalidArgument(f"{argument} holds {value[:80]!r}, which a node of this version would not send.")
    return value


def _added(kept: StoredEnvironment, built: StoredEnvironment) -> StoredEnvironment:
    """The stored environment with additional wheels, if they were built for the same lock."""
    known = {wheel.key for wheel in kept.wheels}
    others = [wheel for wheel in built.wheels if wheel.key not in known] if built.lock == kept.lock else []
    return replace(kept, wheels=(*kept.wheels, *others))


def _to_body(built: StoredEnvironment) -> dict[str, Any]:
    wheels = {wheel.key: [wheel.key, wheel.file_name, wheel.sha256] for wheel in built.wheels}
    return {"python": built.python, "lock": built.lock, "wheels": list(wheels.values())}


def _from_body(body: Mapping[str, Any]) -> StoredEnvironment:
    return StoredEnvironment(body["python"], body["lock"], tuple(StoredWheel(*wheel) for wheel in body["wheels"]))
