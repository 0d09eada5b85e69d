import logging
import threading
from collections.abc import Callable, Sequence

from runyard.errors import RunyardError
from runyard.ports.serving import ServiceHost
from runyard.ports.stores import AssetStore
from runyard.services.web_services.credentials import SECRET_KEY, ServiceCredentials
from runyard.services.web_services.versions import orphans
from runyard.services.web_services.writing import KIND, ServiceWriter

LOOK_EVERY_SECONDS = 2.0
log = logging.getLogger(__name__)


class ServiceKeeper:
    """Sees to it that what is stored is what the host runs: once when it starts, and again whenever the host died."""

    def __init__(
        self, assets: AssetStore, host: ServiceHost, credentials: ServiceCredentials, writer: ServiceWriter
    ) -> None:
        self._assets, self._host, self._credentials, self._writer = assets, host, credentials, writer
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Called before anybody can deploy: what the host has now is what an earlier service left. Returns at once."""
        left = list(self._host.service_ids())
        self._thread = threading.Thread(target=self._keep, args=(left,), name="web-services", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Web services go on."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def reconcile(self, left: Sequence[str]) -> None:
        """Apply all that is stored, as the operator's settings are now; remove of `left` what is stored no longer."""
        ids = set()
        with self._writer.turn:
            for workspace in self._assets.list_workspaces():
                services = self._assets.list(workspace.name, KIND)
                for orphan in orphans(services):
                    self._writer.remove(orphan)
                services = self._assets.list(workspace.name, KIND)
                self._credentials.forget_all_but(workspace.name, {one.body[SECRET_KEY] for one in services})
                for service in services:
                    ids.add(service.id)
                    try:
                        self._writer.apply_again(service)
                    except (RunyardError, OSError) as problem:
                        log.warning("The web service %r stays as it was: %s", service.name, problem)
            for service_id in set(left) - ids:
                self._host.remove(service_id)

    def tell_again(self) -> None:
        """What the host could not be told. Raises EngineError while it still cannot."""
        with self._writer.turn:
            self._writer.tell_again()

    def _keep(self, left: Sequence[str]) -> None:
        self._quietly(lambda: self.reconcile(left))
        while True:
            self._quietly(self._host.revive)
            self._quietly(self.tell_again)
            if self._stopping.wait(LOOK_EVERY_SECONDS):
                return

    def _quietly(self, work: Callable[[], None]) -> None:
        """A full disk now is no reason to stop looking after web services later."""
        try:
            work()
        except Exception:
            log.exception("Looking after web services failed; it is tried again.")
