import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from runyard.errors import EngineError, NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.model.web_services import ServiceSpec
from runyard.planning.web_services.web_service import Credentials, needs_new_workers
from runyard.ports.serving import ServiceHost
from runyard.ports.stores import AssetStore
from runyard.services.web_services.blueprints import Blueprints, Body
from runyard.services.web_services.credentials import SECRET_KEY, ServiceCredentials

KIND = AssetKind.WEB_SERVICE
_COUNTS = ("revision", "generation")


class ServiceWriter:
    """Writes web services: stored first, then told to the host. What the host refuses is unmade again.

    Whatever is killed in between, the next start of the service applies what is stored. Callers hold `turn`: one
    service owns a home, so names stay single and the host hears of changes in their order. A generation is never given
    twice: the host takes no notice of one that it has seen.
    """

    def __init__(
        self,
        assets: AssetStore,
        host: ServiceHost,
        blueprints: Blueprints,
        credentials: ServiceCredentials,
        models_stay: AbstractContextManager[Any],
    ) -> None:
        """No model is deleted while `models_stay` is held."""
        self._assets, self._host, self._blueprints, self._credentials = assets, host, blueprints, credentials
        self._models_stay = models_stay
        self.turn = threading.RLock()
        self._untold: set[tuple[str, str]] = set()

    def find(self, workspace: str, name: str) -> Asset | None:
        try:
            return self._assets.get(workspace, KIND, name)
        except NotFound:
            return None

    def add(
        self,
        workspace: str,
        name: str,
        body: Body,
        tags: Mapping[str, str],
        credentials: Credentials,
        created_by: str,
    ) -> Asset:
        with self._models_stay:
            self._blueprints.require_models(workspace, body["models"])
            secret = self._credentials.keep(workspace, name, credentials)
            whole = {**body, "revision": 1, "generation": 1, SECRET_KEY: secret}
            made = self._assets.add(workspace, KIND, name, whole, tags, created_by)
        try:
            self._apply(self._blueprints.spec(made, credentials))
        except BaseException:
            self.remove(made)
            raise
        return made

    def replace(
        self, seen: Asset, body: Body, tags: Mapping[str, str], credentials: Credentials, *, is_forced: bool
    ) -> Asset:
        """With new workers where the old ones could not serve so, or where that `is_forced`."""
        before, secret = self._credentials.of(seen), seen.body[SECRET_KEY]
        if credentials != before:
            secret = self._credentials.keep(seen.workspace, seen.name, credentials)
        same_counts = {**body, **{name: seen.body[name] for name in _COUNTS}, SECRET_KEY: secret}
        with self._models_stay:
            old, new = self._spec_or_none(seen, before), self._spec(seen, same_counts, credentials)
            if old == new and not is_forced:
                return self._assets.replace(seen, same_counts, tags)
            is_new_revision = is_forced or old is None or needs_new_workers(old, new)
            changed = self._assets.replace(seen, {**same_counts, **_counted_on(seen, is_new_revision)}, tags)
        try:
            self._apply(self._blueprints.spec(changed, credentials))
        except BaseException:
            self._unmake(changed, seen)
            raise
        if secret != seen.body[SECRET_KEY]:
            self._credentials.forget(seen.workspace, seen.body[SECRET_KEY])
        return changed

    def apply_again(self, service: Asset) -> None:
        """As it is stored, and as the operator's settings are now."""
        if service.body["surroundings"] != self._blueprints.surroundings:
            now = {"surroundings": self._blueprints.surroundings, "generation": service.body["generation"] + 1}
            service = self._assets.replace(service, {**service.body, **now}, service.tags)
        try:
            self._host.apply(self._blueprints.spec(service, self._credentials.of(service)))
        except EngineError:
            self._untold.add((service.workspace, service.name))
            raise

    def tell_again(self) -> None:
        """What is stored and the host could not be told. Raises EngineError while it still cannot."""
        for workspace, name in list(self._untold):
            service = self.find(workspace, name)
            if service is not None:
                self.apply_again(service)
            self._untold.discard((workspace, name))

    def remove(self, service: Asset) -> None:
        """The asset goes first: the next start of the service removes from the host what has none."""
        self.forget(service)
        self.end(service)

    def forget(self, service: Asset) -> None:
        """Its name is free from now on."""
        self._assets.delete(service.workspace, KIND, service.name)
        self._credentials.forget(service.workspace, service.body[SECRET_KEY])

    def end(self, service: Asset) -> None:
        """What was forgotten no longer answers. May take a while, and needs no `turn`."""
        self._host.remove(service.id)

    def has_failed(self, service: Asset) -> bool:
        """Whether its newest revision could not be had."""
        observed = self._host.observe(service.id)
        return observed is not None and observed.failed_revision == service.body["revision"]

    def _unmake(self, changed: Asset, seen: Asset) -> None:
        """As it was before the change; under new numbers where the host has the change already."""
        body = seen.body
        if self._host.generation(seen.id) == changed.body["generation"]:
            body = {**seen.body, **_counted_on(changed, changed.body["revision"] != seen.body["revision"])}
            self._untold.add((seen.workspace, seen.name))
        self._assets.replace(changed, body, seen.tags)
        if changed.body[SECRET_KEY] != seen.body[SECRET_KEY]:
            self._credentials.forget(seen.workspace, changed.body[SECRET_KEY])

    def _apply(self, spec: ServiceSpec) -> None:
        """What cannot be had is refused here, before anybody waits for it."""
        self._host.check(spec)
        self._host.apply(spec)

    def _spec(self, seen: Asset, body: Mapping[str, Any], credentials: Credentials) -> ServiceSpec:
        return self._blueprints.spec(replace(seen, body=body), credentials)

    def _spec_or_none(self, seen: Asset, credentials: Credentials) -> ServiceSpec | None:
        try:
            return self._blueprints.spec(seen, credentials)
        except NotFound:  # a model of it is gone
            return None


def _counted_on(service: Asset, is_new_revision: bool) -> dict[str, int]:
    return {"revision": service.body["revision"] + is_new_revision, "generation": service.body["generation"] + 1}
