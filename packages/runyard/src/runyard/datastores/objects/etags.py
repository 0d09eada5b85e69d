"""Etags of object stores: some list them without quotes and answer with them. Ours have none."""


def bare_etag(etag: str | None) -> str:
    return (etag or "").strip('"')


def quoted_etag(etag: str) -> str:
    """As If-Match takes it."""
    return etag if etag.startswith("W/") else f'"{etag}"'
