"""The filters that lists of models, images and web services take: 'key', ['key'] and ['key', 'value']."""


def has_all(present, wanted):
    """Whether the mapping holds each wanted key, and key with value."""
    return all(key in present and (value is None or present[key] == value) for key, value in _pairs(wanted))


def as_texts(mapping):
    """Tags and properties as they are kept: texts, an absent value as an empty one."""
    return {str(key): "" if value is None else str(value) for key, value in (mapping or {}).items()}


def keys_of(tags):
    """The keys of `remove_tags`: a list of them, or one alone."""
    return [tags] if isinstance(tags, str) else list(tags or [])


def _pairs(wanted):
    if isinstance(wanted, dict):
        return list(as_texts(wanted).items())
    return [(one, None) if isinstance(one, str) else (one[0], str(one[1]) if len(one) > 1 else None)
            for one in ([wanted] if isinstance(wanted, str) else wanted or [])]
