import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from runyard.core.errors import EngineError, NotFound
from runyard.core.lookups import find_asset
from runyard.core.ports.serving import ServiceHost
from runyard.core.ports.stores import AssetStore
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.web_services import ServiceSpec
from runyard.serving.deployments.credentials import SECRET_KEY, ServiceCredentials
from runyard.serving.deployments.planner import Body, DeploymentPlanner
from runyard.serving.deployments.service_spec import Credentials, needs_new_workers

KIND = AssetKind.WEB_SERVICE
_COUNTS = ("revision", "generation")


class ServiceWriter:
    """Writes web services: stores the asset, then applies it to the host. A change that the host refuses is undone.

    When the service is killed in between, its next start applies what is stored. Callers hold `lock`, which keeps names
    unique and changes in order: one service owns a home. A generation number is never reused, because the host ignores
    generations that it has seen.
    """

    def __init__(
        self,
        assets: AssetStore,
        host: ServiceHost,
        planner: DeploymentPlanner,
        credentials: ServiceCredentials,
        no_model_deletion: AbstractContextManager[Any],
    ) -> None:
        """No model is deleted while `no_model_deletion` is held."""
        self._assets, self._host, self._planner, self._credentials = assets, host, planner, credentials
        self._no_model_deletion = no_model_deletion
        self.lock = threading.RLock()
        self._pending: set[tuple[str, str]] = set()

    def find(self, workspace: str, name: str) -> Asset | None:
        return find_asset(self._assets, workspace, KIND, name)

    def add(
        self,
        workspace: str,
        name: str,
        body: Body,
        tags: Mapping[str, str],
        credentials: Credentials,
        created_by: str,
    ) -> Asset:
        with self._no_model_deletion:
            self._planner.require_models(workspace, body["models"])
            secret = self._credentials.keep(workspace, name, credentials)
            stored = {**body, "revision": 1, "generation": 1, SECRET_KEY: secret}
            made = self._assets.add(workspace, KIND, name, stored, tags, created_by)
        try:
            self._apply(self._planner.spec(made, credentials))
        except BaseException:
            self.remove(made)
            raise
        return made

    def replace(
        self, seen: Asset, body: Body, tags: Mapping[str, str], credentials: Credentials, *, is_forced: bool
    ) -> Asset:
        """Store and apply a change; starts new workers when it needs them, or `is_forced`."""
        before, secret = self._credentials.of(seen), seen.body[SECRET_KEY]
        if credentials != before:
            secret = self._credentials.keep(seen.workspace, seen.name, credentials)
        same_counts = {**body, **{name: seen.body[name] for name in _COUNTS}, SECRET_KEY: secret}
        with self._no_model_deletion:
            old, new = self._spec_or_none(seen, before), self._spec(seen, same_counts, credentials)
            if old == new and not is_forced:
                return self._assets.replace(seen, same_counts, tags)
            is_new_revision = is_forced or old is None or needs_new_workers(old, new)
            changed = self._assets.replace(seen, {**same_counts, **_next_counts(seen, is_new_revision)}, tags)
        try:
            self._apply(self._planner.spec(changed, credentials))
        except BaseException:
            self._undo(changed, seen)
            raise
        if secret != seen.body[SECRET_KEY]:
            self._credentials.forget(seen.workspace, seen.body[SECRET_KEY])
        return changed

    def reapply(self, service: Asset) -> None:
        """Apply a stored web service with the current settings of the operator."""
        # "surroundings" is the name in the stored record.
        if service.body["surroundings"] != self._planner.settings_digest:
            now = {"surroundings": self._planner.settings_digest, "generation": service.body["generation"] + 1}
            service = self._assets.replace(service, {**service.body, **now}, service.tags)
        try:
            self._host.apply(self._planner.spec(service, self._credentials.of(service)))
        except EngineError:
            self._pending.add((service.workspace, service.name))
            raise

    def apply_pending(self) -> None:
        """Apply what the host could not be given before. Raises EngineError while it is still unreachable."""
        for workspace, name in list(self._pending):
            service = self.find(workspace, name)
            if service is not None:
                self.reapply(service)
            self._pending.discard((workspace, name))

    def remove(self, service: Asset) -> None:
        """Delete the asset first: the next start of the service removes from the host what has no asset."""
        self.forget(service)
        self.end(service)

    def forget(self, service: Asset) -> None:
        """Delete the asset and its credentials; its name is free afterwards."""
        self._assets.delete(service.workspace, KIND, service.name)
        self._credentials.forget(service.workspace, service.body[SECRET_KEY])

    def end(self, service: Asset) -> None:
        """Remove it from the host. May take a while; needs no `lock`."""
        self._host.remove(service.id)

    def has_failed(self, service: Asset) -> bool:
        """Whether its newest revision failed."""
        observed = self._host.observe(service.id)
        return observed is not None and observed.failed_revision == service.body["revision"]

    def _undo(self, changed: Asset, seen: Asset) -> None:
        """Restore the asset; with new numbers when the host has the change already."""
        body = seen.body
        if self._host.generation(seen.id) == changed.body["generation"]:
            body = {**seen.body, **_next_counts(changed, changed.body["revision"] != seen.body["revision"])}
            self._pending.add((seen.workspace, seen.name))
        self._assets.replace(changed, body, seen.tags)
        if changed.body[SECRET_KEY] != seen.body[SECRET_KEY]:
            self._credentials.forget(seen.workspace, changed.body[SECRET_KEY])

    def _apply(self, spec: ServiceSpec) -> None:
        """Check it on the host first, so that the caller gets the error at once."""
        self._host.check(spec)
        self._host.apply(spec)

    def _spec(self, seen: Asset, body: Mapping[str, Any], credentials: Credentials) -> ServiceSpec:
        return self._planner.spec(replace(seen, body=body), credentials)

    def _spec_or_none(self, seen: Asset, credentials: Credentials) -> ServiceSpec | None:
        try:
            return self._planner.spec(seen, credentials)
        except NotFound:  # a model of it was deleted
            return None


def _next_counts(service: Asset, is_new_revision: bool) -> dict[str, int]:
    return {"revision": service.body["revision"] + is_new_revision, "generation": service.body["generation"] + 1}
