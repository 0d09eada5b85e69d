def time_of(text):
    """The aware datetime of a time on the wire; None of nothing."""
    if not text:
        return None
    from datetime import datetime, timezone
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if "." in text else "%Y-%m-%dT%H:%M:%SZ"
    return datetime.strptime(text, form).replace(tzinfo=timezone.utc)


def written_time(moment):
    """Its ISO form, as serialize() gives it."""
    return moment.isoformat() if moment is not None else None
