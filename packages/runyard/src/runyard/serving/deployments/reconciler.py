import logging
import threading
from collections.abc import Callable, Sequence

from runyard.core.errors import RunyardError
from runyard.core.ports.serving import ServiceHost
from runyard.core.ports.stores import AssetStore
from runyard.serving.deployments.credentials import SECRET_KEY, ServiceCredentials
from runyard.serving.deployments.versions import orphaned_versions
from runyard.serving.deployments.writer import KIND, ServiceWriter

RECONCILE_SECONDS = 2.0
log = logging.getLogger(__name__)


class ServiceReconciler:
    """Makes the host run what is stored: once at the start of the service, then restarts a host that died."""

    def __init__(
        self, assets: AssetStore, host: ServiceHost, credentials: ServiceCredentials, writer: ServiceWriter
    ) -> None:
        self._assets, self._host, self._credentials, self._writer = assets, host, credentials, writer
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start a thread; returns at once. Call it before deployments are accepted: what the host has then was left by
        an earlier service."""
        left = list(self._host.service_ids())
        self._thread = threading.Thread(target=self._run, args=(left,), name="web-services", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; web services keep running."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def reconcile(self, left: Sequence[str]) -> None:
        """Apply all stored web services with the current settings; remove those of `left` that are no longer stored."""
        ids = set()
        with self._writer.lock:
            for workspace in self._assets.list_workspaces():
                services = self._assets.list(workspace.name, KIND)
                for orphan in orphaned_versions(services):
                    self._writer.remove(orphan)
                services = self._assets.list(workspace.name, KIND)
                self._credentials.delete_unused(workspace.name, {one.body[SECRET_KEY] for one in services})
                for service in services:
                    ids.add(service.id)
                    try:
                        self._writer.reapply(service)
                    except (RunyardError, OSError) as problem:
                        log.warning("The web service %r stays as it was: %s", service.name, problem)
            for service_id in set(left) - ids:
                self._host.remove(service_id)

    def apply_pending(self) -> None:
        """Apply what the host could not be given before. Raises EngineError while it is still unreachable."""
        with self._writer.lock:
            self._writer.apply_pending()

    def _run(self, left: Sequence[str]) -> None:
        self._log_errors(lambda: self.reconcile(left))
        while True:
            self._log_errors(self._host.revive)
            self._log_errors(self.apply_pending)
            if self._stopping.wait(RECONCILE_SECONDS):
                return

    def _log_errors(self, work: Callable[[], None]) -> None:
        """Run it; an exception, such as a full disk, is logged and the work is retried on the next pass."""
        try:
            work()
        except Exception:
            log.exception("Looking after web services failed; it is tried again.")
