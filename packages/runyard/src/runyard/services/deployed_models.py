from runyard.model.assets import AssetKind
from runyard.ports.stores import AssetStore


def services_of(assets: AssetStore, workspace: str, model: str, version: int | None) -> list[str]:
    """The names of the web services that serve that version of a model, or with None any of its versions."""
    return [
        service.name
        for service in assets.list(workspace, AssetKind.WEB_SERVICE)
        if any(_is_it(one, model, version) for one in service.body["models"])
    ]


def _is_it(id: str, model: str, version: int | None) -> bool:
    name, _, number = id.rpartition(":")
    return name == model and (version is None or number == str(version))
