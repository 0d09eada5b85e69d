"""Who has a model, so that it stays."""

from collections.abc import Sequence

from runyard.model.assets import Asset, AssetKind
from runyard.ports.stores import AssetStore


def services_of(assets: AssetStore, workspace: str, model: str, version: int | None) -> Sequence[Asset]:
    """The web services that serve that version of a model, or with None any of its versions."""
    return _naming(assets.list(workspace, AssetKind.WEB_SERVICE), model, version)


def images_of(assets: AssetStore, workspace: str, model: str, version: int | None) -> Sequence[Asset]:
    """The same of images, which are deployed later."""
    return _naming(assets.list(workspace, AssetKind.IMAGE), model, version)


def _naming(found: Sequence[Asset], model: str, version: int | None) -> Sequence[Asset]:
    return [one for one in found if any(_is_it(id, model, version) for id in one.body["models"])]


def _is_it(id: str, model: str, version: int | None) -> bool:
    name, _, number = id.rpartition(":")
    return name == model and (version is None or number == str(version))
