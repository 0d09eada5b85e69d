"""The workspace's stored things (models, environments, datasets, datastores, computes) over the wire."""
from runyard_sdk.errors import NotFound  # noqa: F401


def create_asset(workspace, kind, name, body, tags=None, **more):
    """Store the next version of `name`; returns the asset."""
    return workspace._client.post(
        workspace._path("assets", kind), dict(more, name=name, body=body, tags=tags or {}))


def get_asset(workspace, kind, name, version=None, label=None):
    """One asset: of that version or label, else the newest. Raises NotFound."""
    return workspace._client.get(workspace._path("assets", kind, name), version=version, label=label)


def get_asset_by_id(workspace, kind, asset_id):
    return workspace._client.get(workspace._path("assets", kind, "by-id", asset_id))


def find_asset(workspace, kind, name, version=None):
    """One asset, or None."""
    try:
        return get_asset(workspace, kind, name, version)
    except NotFound:
        return None


def list_assets(workspace, kind, name=None, latest=False, tag=None):
    return workspace._client.get(workspace._path("assets", kind), name=name, latest=latest, tag=tag)["assets"]


def patch_asset(workspace, kind, name, version=None, body=None, tags=None):
    """Merge into the body at its top level, and into the tags, where a None removes; returns the asset."""
    changes = {key: value for key, value in (("body", body), ("tags", tags)) if value}
    return workspace._client.patch(workspace._path("assets", kind, name), changes, version=version)


def label_asset(workspace, kind, name, version, labels):
    """Have these labels mean that version; returns the asset."""
    return workspace._client.patch(workspace._path("assets", kind, name), {"labels": labels}, version=version)


def delete_asset(workspace, kind, name, version=None):
    workspace._client.delete(workspace._path("assets", kind, name), version=version)
