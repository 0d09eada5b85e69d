"""What each kind of asset asks for beyond a name and a body."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runyard.errors import Conflict, InvalidArgument, NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.model.files import FileEntry
from runyard.model.names import check_relative_path
from runyard.model.runs import RunId
from runyard.ports.blobs import BlobStore
from runyard.ports.stores import AssetStore
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


class DatasetKind(PlainKind):
    """A dataset is sources: web addresses or paths on datastores of its workspace."""

    may_be_nameless = True

    def checked_body(self, workspace: str, name: str, body: Body) -> Body:
        sources = body.get("sources")
        if not isinstance(sources, list) or not all(isinstance(source, dict) for source in sources):
            raise InvalidArgument("A dataset takes a list of sources, each with 'url' or with 'datastore' and 'path'.")
        for source in sources:
            url, datastore = source.get("url"), source.get("datastore")
            if datastore is not None:
                path = str(source.get("path") or "").strip("/")
                if path:
                    check_relative_path(path, "path")
            elif not isinstance(url, str) or not url.startswith(("http://", "https://")):
                raise InvalidArgument(f"A dataset's source must be an http or https address, got {url!r}.")
        return dict(body)


class DatastoreKind(PlainKind):
    """A datastore is a folder of this home. Exactly one of a workspace is the default."""

    is_versioned = False

    def __init__(self, assets: AssetStore, folder: Path) -> None:
        self._assets, self._folder = assets, folder

    def checked_body(self, workspace: str, name: str, body: Body) -> Body:
        kind = body.get("type", "folder")
        if kind != "folder":
            raise InvalidArgument(f"A datastore of type {kind!r} is not known.", hint="Use type 'folder'.")
        return {**body, "type": "folder", "is_default": bool(body.get("is_default", False))}

    def stored(self, asset: Asset) -> None:
        (self._folder / asset.workspace / asset.name).mkdir(parents=True, exist_ok=True)
        if asset.body.get("is_default"):
            for other in self._assets.list(asset.workspace, AssetKind.DATASTORE):
                if other.name != asset.name and other.body.get("is_default"):
                    self._assets.replace(other, {**other.body, "is_default": False}, other.tags)

    def before_delete(self, asset: Asset) -> None:
        if asset.body.get("is_default"):
            raise Conflict(
                f"{asset.name!r} is the default datastore of workspace {asset.workspace!r}.",
                hint="Make another one the default first.",
            )


def _entries(files: Any) -> Sequence[FileEntry]:
    try:
        return [FileEntry(str(path), str(sha256), int(size), int(mode)) for path, sha256, size, mode in files]
    except (TypeError, ValueError):
        raise InvalidArgument("A model takes files as a list of [path, sha256, size, mode].") from None
