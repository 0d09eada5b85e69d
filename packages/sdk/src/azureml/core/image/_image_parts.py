from azureml.exceptions import WebserviceException


class Asset(object):
    """A file of an image."""

    def __init__(self, id, mime_type, unpack, url):
        self.id = id
        self.mime_type = mime_type
        self.unpack = unpack
        self.url = url

    def serialize(self):
        return {"id": self.id, "mimeType": self.mime_type, "unpack": self.unpack, "url": self.url}

    @staticmethod
    def deserialize(payload_obj):
        _require(payload_obj, ("mimeType", "url"), "Asset")
        return Asset(payload_obj.get("id"), payload_obj["mimeType"], payload_obj.get("unpack", False),
                     payload_obj["url"])


class TargetRuntime(object):
    """Which interpreter an image has."""

    def __init__(self, properties, runtime_type, targetArchitecture):
        self.properties = properties
        self.runtime_type = runtime_type
        self.targetArchitecture = targetArchitecture

    def serialize(self):
        return {"properties": self.properties, "runtimeType": self.runtime_type,
                "targetArchitecture": self.targetArchitecture}

    @staticmethod
    def deserialize(payload_obj):
        _require(payload_obj, ("runtimeType",), "TargetRuntime")
        return TargetRuntime(payload_obj.get("properties"), payload_obj["runtimeType"],
                             payload_obj.get("targetArchitecture"))


def _require(payload, keys, what):
    missing = [key for key in keys if key not in payload]
    if missing:
        raise WebserviceException("Invalid image payload, missing %s for %s: %r" % (", ".join(missing), what, payload))
