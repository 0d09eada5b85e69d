from azureml.exceptions import WebserviceException


class Part(object):
    """A few values that stand together in what serialize() gives, there under names of their own."""

    _keys = ()
    """Pairs of an attribute and its name in the mapping, in the order of the constructor's arguments."""
    _optional = ()

    def serialize(self):
        return {key: getattr(self, name) for name, key in self._keys}

    @classmethod
    def deserialize(cls, payload_obj):
        """None of None; WebserviceException where a value is missing."""
        if payload_obj is None:
            return None
        missing = [key for name, key in cls._keys if key not in payload_obj and name not in cls._optional]
        if missing:
            raise WebserviceException("Invalid webservice payload, missing %s for %s: %r" % (
                ", ".join(missing), cls.__name__, payload_obj))
        return cls(*[payload_obj.get(key) for _, key in cls._keys])

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%r" % (name, getattr(self, name))
                                                          for name, _ in self._keys))
