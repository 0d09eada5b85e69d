"""Web services and images that use a model, which therefore cannot be deleted."""

from collections.abc import Sequence

from runyard.core.ports.stores import AssetStore
from runyard.core.records.assets import Asset, AssetKind


def services_with_model(assets: AssetStore, workspace: str, model: str, version: int | None) -> Sequence[Asset]:
    """Web services with that version of a model; with None, any version."""
    return _with_model(assets.list(workspace, AssetKind.WEB_SERVICE), model, version)


def images_with_model(assets: AssetStore, workspace: str, model: str, version: int | None) -> Sequence[Asset]:
    """Images with that version of a model; with None, any version."""
    return _with_model(assets.list(workspace, AssetKind.IMAGE), model, version)


def _with_model(found: Sequence[Asset], model: str, version: int | None) -> Sequence[Asset]:
    return [one for one in found if any(_matches(id, model, version) for id in one.body["models"])]


def _matches(id: str, model: str, version: int | None) -> bool:
    name, _, number = id.rpartition(":")
    return name == model and (version is None or number == str(version))
