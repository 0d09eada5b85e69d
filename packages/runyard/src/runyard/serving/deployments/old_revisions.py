import re
import shutil
import time
from datetime import timedelta
from pathlib import Path

from runyard.core.ports.serving import ServiceHost
from runyard.core.ports.stores import AssetStore
from runyard.core.records.assets import Asset
from runyard.serving.deployments.writer import KIND

_REVISION = re.compile(r"r(\d{1,9})")


class OldRevisions:
    """Deletes files of replaced revisions.

    Folders without a web service are left to the reconciler at the start: one may belong to a running profile.
    """

    def __init__(self, folder: Path, assets: AssetStore, host: ServiceHost) -> None:
        self._folder, self._assets, self._host = folder, assets, host

    def remove(self, older_than: timedelta) -> list[str]:
        """Delete revisions that were replaced that long ago; return their paths below the folder."""
        removed = []
        for service in self._services():
            for revision in self._unused_revisions(service):
                if self._is_old(revision, older_than):
                    shutil.rmtree(revision, ignore_errors=True)
                    removed.append(f"{service.id}/{revision.name}")
        return removed

    def _services(self) -> list[Asset]:
        workspaces = self._assets.list_workspaces()
        return [service for workspace in workspaces for service in self._assets.list(workspace.name, KIND)]

    def _unused_revisions(self, service: Asset) -> list[Path]:
        """Revisions older than the one that answers and the stored one, without these two."""
        observed = self._host.observe(service.id)
        folder = self._folder / service.id
        if observed is None or not folder.is_dir():
            return []
        numbers = {path: int(found[1]) for path in folder.iterdir() if (found := _REVISION.fullmatch(path.name))}
        in_use = {observed.revision, service.body["revision"]}
        return [path for path, number in numbers.items() if number not in in_use and number < max(in_use)]

    def _is_old(self, path: Path, older_than: timedelta) -> bool:
        try:
            return time.time() - path.stat().st_mtime >= older_than.total_seconds()
        except FileNotFoundError:
            return False
