"""Objects that are serialised as camelCase mappings: the parts of environments and run configurations."""

import functools

_SECRET_KEYS = ("password", "authToken")


class Element(object):
    """`_fields` maps an attribute to None (a plain value), an Element class, [class] or {"": class}."""

    _fields = {}
    _names = {}

    @classmethod
    def _key(cls, attribute):
        return cls._names.get(attribute) or camel(attribute.lstrip("_"))

    def _to_object(self):
        """Serialise to a mapping with camelCase keys; `_from_object` reads it back."""
        return {self._key(name): _plain(getattr(self, name)) for name in self._fields}

    @classmethod
    def _from_object(cls, given):
        """Build an object from such a mapping. Keys are case-insensitive, unknown keys are ignored."""
        made = cls._blank()
        known = {cls._key(name).lower(): (name, kind) for name, kind in cls._fields.items()}
        for key, value in (given or {}).items():
            name, kind = known.get(str(key).lower(), (None, None))
            if name is not None and value is not None:
                setattr(made, name, _typed(value, kind))
        return made

    @classmethod
    def _blank(cls):
        return cls()

    def __repr__(self):
        import json
        return json.dumps(without_secrets(self._to_object(), shown_as="****"), indent=4, default=str)


def without_secrets(written, shown_as=None):
    """Copy of a `_to_object` result with every password and token masked."""
    if isinstance(written, dict):
        return {key: shown_as if key in _SECRET_KEYS and value else without_secrets(value, shown_as)
                for key, value in written.items()}
    if isinstance(written, list):
        return [without_secrets(item, shown_as) for item in written]
    return written


@functools.lru_cache(maxsize=1024)  # a submit asks for the same hundred names each time
def camel(name):
    first, _, rest = name.partition("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest.split("_"))


def _plain(value):
    if isinstance(value, Element):
        return value._to_object()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _typed(value, kind):
    if kind is None:
        return value
    if isinstance(kind, list):
        return [_typed(item, kind[0]) for item in value]
    if isinstance(kind, dict):
        return {key: _typed(item, kind[""]) for key, item in value.items()}
    return kind._from_object(value) if isinstance(value, dict) else value
