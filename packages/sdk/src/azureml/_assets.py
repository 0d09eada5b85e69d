"""Calls for assets of a workspace (models, environments, datasets, datastores, computes), and the forms of their tags
and times."""

from runyard_sdk.errors import NotFound  # noqa: F401


def create_asset(workspace, kind, name, body, tags=None, **more):
    """Store the next version of `name`; return the asset."""
    return workspace._client.post(
        workspace._path("assets", kind), dict(more, name=name, body=body, tags=tags or {}))


def get_asset(workspace, kind, name, version=None, label=None):
    """Return the asset with that version or label, else the newest version. Raises NotFound."""
    return workspace._client.get(workspace._path("assets", kind, name), version=version, label=label)


def get_asset_by_id(workspace, kind, asset_id):
    return workspace._client.get(workspace._path("assets", kind, "by-id", asset_id))


def find_asset(workspace, kind, name, version=None):
    """Return the asset, or None."""
    try:
        return get_asset(workspace, kind, name, version)
    except NotFound:
        return None


def list_assets(workspace, kind, name=None, latest=False, tag=None):
    return workspace._client.get(workspace._path("assets", kind), name=name, latest=latest, tag=tag)["assets"]


def patch_asset(workspace, kind, name, version=None, body=None, tags=None):
    """Merge `body` at its top level and `tags` (a None value removes the tag); return the asset."""
    changes = {key: value for key, value in (("body", body), ("tags", tags)) if value}
    return workspace._client.patch(workspace._path("assets", kind, name), changes, version=version)


def label_asset(workspace, kind, name, version, labels):
    """Point these labels to that version; return the asset."""
    return workspace._client.patch(workspace._path("assets", kind, name), {"labels": labels}, version=version)


def delete_asset(workspace, kind, name, version=None):
    workspace._client.delete(workspace._path("assets", kind, name), version=version)


def has_all(present, wanted):
    """Whether the mapping matches a tag filter: 'key', ['key'], [['key', 'value']] or {key: value}."""
    return all(key in present and (value is None or present[key] == value) for key, value in _pairs(wanted))


def as_texts(mapping):
    """Tags or properties with text keys and values; None becomes ''."""
    return {str(key): "" if value is None else str(value) for key, value in (mapping or {}).items()}


def keys_of(tags):
    """Keys given to `remove_tags`: a list, or a single key."""
    return [tags] if isinstance(tags, str) else list(tags or [])


def _pairs(wanted):
    if isinstance(wanted, dict):
        return list(as_texts(wanted).items())
    return [(one, None) if isinstance(one, str) else (one[0], str(one[1]) if len(one) > 1 else None)
            for one in ([wanted] if isinstance(wanted, str) else wanted or [])]


def parse_time(text):
    """Parse a time of the API into an aware datetime; None for an empty value."""
    if not text:
        return None
    from datetime import datetime, timezone
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if "." in text else "%Y-%m-%dT%H:%M:%SZ"
    return datetime.strptime(text, form).replace(tzinfo=timezone.utc)


def time_text(moment):
    """ISO text of a datetime, as serialize() returns it; None for None."""
    return moment.isoformat() if moment is not None else None
