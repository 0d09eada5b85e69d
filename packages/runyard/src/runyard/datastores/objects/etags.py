def bare_etag(etag: str | None) -> str:
    """Etag without quotes. Some stores list etags without quotes and return them with quotes."""
    return (etag or "").strip('"')


def quoted_etag(etag: str) -> str:
    """Etag as the header If-Match needs it."""
    return etag if etag.startswith("W/") else f'"{etag}"'
