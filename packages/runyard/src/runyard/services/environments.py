import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.errors import BlobsMissing, Conflict, InvalidArgument, NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.model.names import check_sha256
from runyard.model.runs import AttemptId, run_of
from runyard.ports.clock import Clock
from runyard.ports.stores import AssetStore, RunStore
from runyard.services.access import Access
from runyard.services.callers_blobs import CallersBlobs

LOCK = AssetKind.ENVIRONMENT_LOCK
KEY = re.compile(r"[0-9a-f]{24}")
PYTHON = re.compile(r"3\.\d{1,2}")
WHEEL = re.compile(r"[A-Za-z0-9][\w.+!-]{0,200}\.whl")
MARK_USED_EVERY = timedelta(days=1)


@dataclass(frozen=True)
class KeptWheel:
    key: str
    """Tells for which machines and packages it is good."""
    file_name: str
    sha256: str


@dataclass(frozen=True)
class KeptEnvironment:
    """What nodes make an environment from that another node has made before."""

    python: str
    lock: str
    wheels: tuple[KeptWheel, ...] = ()


class Environments:
    """Locks and compiled wheels of environments, for nodes that share no files with the service.

    They are kept per workspace: a run's node cannot change what runs of other workspaces are made of.
    """

    def __init__(self, runs: RunStore, assets: AssetStore, blobs: CallersBlobs, clock: Clock, access: Access) -> None:
        self._access = access
        self._runs, self._assets, self._blobs, self._clock = runs, assets, blobs, clock

    def known(self, workspace: str, key: str) -> bool:
        """Whether a node can make it without resolving or compiling anything."""
        return self._find(workspace, key) is not None

    def python_of(self, workspace: str, key: str) -> str:
        """The minor version of its Python; "" where no node has made it."""
        seen = self._find(workspace, key)
        return "" if seen is None else str(seen.body["python"])

    def get(self, who: Principal, attempt_id: AttemptId, key: str) -> KeptEnvironment:
        """Raises NotFound where no node has made it yet. Marks it as used."""
        self._access.attempt(who, Action.SERVE_ATTEMPT, attempt_id)
        seen = self._find(self._workspace(attempt_id), _checked(KEY, key, "key"))
        if seen is None:
            raise NotFound(f"No node has made the environment {key} yet.")
        if self._clock.now() - seen.modified_at > MARK_USED_EVERY:
            with suppress(Conflict):
                self._assets.replace(seen, seen.body, seen.tags)
        return _from_body(seen.body)

    def put(self, who: Principal, attempt_id: AttemptId, key: str, made: KeptEnvironment) -> None:
        """Keep what a node has made. The first lock and the first wheel of a key count, so that no node changes what
        others install; a forced build replaces them. Safe to repeat. Raises BlobsMissing for wheels that were not sent
        before."""
        self._access.attempt(who, Action.SERVE_ATTEMPT, attempt_id)
        _check(made)
        missing = self._blobs.missing(who, [wheel.sha256 for wheel in made.wheels])
        if missing:
            raise BlobsMissing("The wheels are not here yet.", hint="Send them, then ask again.", sha256=missing)
        run, name = self._runs.get(run_of(attempt_id)), _checked(KEY, key, "key")
        while True:
            seen = self._find(run.workspace, name)
            if seen is None:
                self._assets.add(run.workspace, LOCK, name, _to_body(made), {}, who.name)
                return
            body = _to_body(made if run.definition.runyard.is_forced_build else _added(_from_body(seen.body), made))
            if body == seen.body:
                return
            with suppress(Conflict):
                self._assets.replace(seen, body, seen.tags)
                return

    def prune(self, older_than: timedelta) -> list[str]:
        """Forget what no node asked for in that long. The blobs of its wheels are then nobody's."""
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
        try:
            return self._assets.get(workspace, LOCK, key)
        except NotFound:
            return None


def _check(made: KeptEnvironment) -> None:
    _checked(PYTHON, made.python, "python")
    for wheel in made.wheels:
        _checked(KEY, wheel.key, "wheels")
        _checked(WHEEL, wheel.file_name, "wheels")
        check_sha256(wheel.sha256)


def _checked(pattern: re.Pattern[str], value: str, argument: str) -> str:
    if not pattern.fullmatch(value):
        raise InvalidArgument(f"{argument} holds {value[:80]!r}, which a node of this version would not send.")
    return value


def _added(kept: KeptEnvironment, made: KeptEnvironment) -> KeptEnvironment:
    """The kept environment, with wheels of other keys where they were made for the same lock."""
    known = {wheel.key for wheel in kept.wheels}
    others = [wheel for wheel in made.wheels if wheel.key not in known] if made.lock == kept.lock else []
    return replace(kept, wheels=(*kept.wheels, *others))


def _to_body(made: KeptEnvironment) -> dict[str, Any]:
    wheels = {wheel.key: [wheel.key, wheel.file_name, wheel.sha256] for wheel in made.wheels}
    return {"python": made.python, "lock": made.lock, "wheels": list(wheels.values())}


def _from_body(body: Mapping[str, Any]) -> KeptEnvironment:
    return KeptEnvironment(body["python"], body["lock"], tuple(KeptWheel(*wheel) for wheel in body["wheels"]))
