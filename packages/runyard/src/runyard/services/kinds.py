"""What each kind of asset asks for beyond a name and a body."""

from collections.abc import Sequence
from typing import Any

from runyard.errors import InvalidArgument, NotFound
from runyard.model.assets import Asset
from runyard.model.files import FileEntry
from runyard.model.names import check_relative_path
from runyard.model.runs import RunId
from runyard.ports.blobs import BlobStore
from runyard.services.assets import Body
from runyard.services.files import RunFiles
from runyard.services.snapshots import checked_entries, require_blobs

CURATED_PREFIX = "AzureML-"


class PlainKind:
    """Stored as given, a version a time."""

    is_versioned = True
    may_be_nameless = False

    def is_news(self, latest: Asset, body: Body) -> bool:
        return True

    def checked_body(self, workspace: str, name: str, body: Body) -> Body:
        return dict(body)

    def checked_change(self, seen: Asset, body: Body) -> Body:
        return self.checked_body(seen.workspace, seen.name, body)

    def stored(self, asset: Asset) -> None:
        return

    def before_delete(self, asset: Asset) -> None:
        return

    def deleted(self, asset: Asset) -> None:
        return


class ModelKind(PlainKind):
    """A model is files: named blobs, or the files of a run below `model_path`."""

    def __init__(self, files: RunFiles, blobs: BlobStore) -> None:
        self._files, self._blobs = files, blobs

    def checked_body(self, workspace: str, name: str, body: Body) -> Body:
        kept = dict(body)
        path = kept.pop("model_path", None)
        if path is not None and "files" not in kept:
            entries = self._from_run(RunId(str(kept.get("run_id", ""))), str(path))
        else:
            entries = checked_entries(_entries(kept.get("files")))
            require_blobs(self._blobs, entries)
        kept["files"] = [[entry.path, entry.sha256, entry.size, entry.mode] for entry in entries]
        return kept

    def _from_run(self, run_id: RunId, path: str) -> Sequence[FileEntry]:
        path = check_relative_path(path.rstrip("/"), "model_path")
        entries = self._files.below(run_id, path)
        if not entries:
            there = [listed.path for listed in self._files.list(run_id)]
            listed = ", ".join(there[:20]) + (", ..." if len(there) > 20 else "")
            raise NotFound(
                f"Run {run_id} has nothing at model_path {path!r}. Its files: {listed or 'none'}.", files=there[:1000]
            )
        above = len(path) - len(path.rpartition("/")[2])
        return [FileEntry(entry.path[above:], entry.sha256, entry.size, entry.mode) for entry in entries]


class EnvironmentKind(PlainKind):
    """Registering the same definition again is no new version. The names of curated environments are taken."""

    def checked_body(self, workspace: str, name: str, body: Body) -> Body:
        if name.startswith(CURATED_PREFIX):
            raise InvalidArgument(
                f"The environment's name {name!r} begins with {CURATED_PREFIX!r}, which curated environments alone do.",
                hint="Give it another name, for example with environment.clone('my-environment').",
            )
        return dict(body)

    def is_news(self, latest: Asset, body: Body) -> bool:
        return dict(latest.body) != dict(body)


def _entries(files: Any) -> Sequence[FileEntry]:
    try:
        return [FileEntry(str(path), str(sha256), int(size), int(mode)) for path, sha256, size, mode in files]
    except (TypeError, ValueError):
        raise InvalidArgument("A model takes files as a list of [path, sha256, size, mode].") from None
