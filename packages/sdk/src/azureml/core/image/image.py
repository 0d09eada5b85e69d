from abc import ABC, abstractmethod

from azureml._assets import (
    as_texts, create_asset, delete_asset, has_all, keys_of, list_assets, parse_time, patch_asset, time_text)
from azureml._service import webservice_errors
from azureml.core.model import ARCHITECTURE_AMD64, Model  # noqa: F401
from azureml.exceptions import WebserviceException

UNKNOWN_IMAGE_FLAVOR = "Unknown"
UNKNOWN_IMAGE_TYPE = "Unknown"
MMS_SYNC_TIMEOUT_SECONDS = 80


class Image(ABC):
    """Models and a scoring script stored under a name and a version, for deployment.

    There is no container image: deploying makes a web service from its files.
    """

    _types = {}

    def __new__(cls, workspace, name=None, id=None, tags=None, properties=None, version=None):
        if workspace is None:
            return object.__new__(cls)
        found = _find(workspace, name, id, tags, properties, version)
        return cls._of_asset(workspace, found)

    def __init__(self, workspace, name=None, id=None, tags=None, properties=None, version=None):
        pass

    @staticmethod
    def create(workspace, name, models, image_config):
        """Store models with the script of an image configuration. It exists when this returns."""
        from azureml.core._model_references import model_ids, models_of
        if not isinstance(image_config, ImageConfig):
            raise WebserviceException("image_config must come from ContainerImage.image_configuration(...), got %r." % (
                image_config,))
        image_config.validate_configuration()
        body = image_config.build_create_payload(workspace, name, model_ids(models_of(workspace, models)))
        print("Creating image")
        with webservice_errors():
            asset = create_asset(workspace, "images", name, body, tags=as_texts(image_config.tags))
        return Image._of_asset(workspace, asset)

    @staticmethod
    def image_configuration():
        raise NotImplementedError("Use ContainerImage.image_configuration(...).")

    @staticmethod
    def list(workspace, image_name=None, model_name=None, model_id=None, tags=None, properties=None):
        """Images, newest first. tags and properties: 'key', ['key'] or [['key', 'value']]."""
        names = [] if model_name is None else [model_name]
        return [image for image in _listed(workspace, image_name, tags, properties)
                if all(name in [one.rpartition(":")[0] for one in image.model_ids] for name in names)
                and (model_id is None or model_id in image.model_ids)]

    def wait_for_creation(self, show_output=False):
        """Return at once: it exists already. show_output prints v1's lines."""
        self.update_creation_state()
        if show_output:
            print("Running\n%s\nImage creation operation finished for image %s, operation \"%s\"" % (
                self.creation_state, self.id, self.creation_state))

    def update_creation_state(self):
        """Refresh every attribute."""
        self._take(self.workspace, _find(self.workspace, None, self.id, None, None, None))

    def update(self, tags):
        """Replace all tags."""
        self._patch(tags=dict({key: None for key in self.tags}, **as_texts(tags)))

    def add_tags(self, tags):
        self._patch(tags=as_texts(tags))

    def remove_tags(self, tags):
        self._patch(tags={key: None for key in keys_of(tags)})

    def add_properties(self, properties):
        """Add properties; an existing property cannot change."""
        added = as_texts(properties)
        changed = [key for key in added if self.properties.get(key, added[key]) != added[key]]
        if changed:
            raise WebserviceException("The property %r is set already and cannot change." % changed[0])
        self._patch(body={"properties": dict(self.properties, **added)})

    def delete(self):
        """Delete the image. Raises WebserviceException while a web service uses it."""
        with webservice_errors():
            delete_asset(self.workspace, "images", self.name, self.version)

    def serialize(self):
        return {"createdTime": time_text(self.created_time), "creationState": self.creation_state, "id": self.id,
                "description": self.description, "imageBuildLogUri": None, "imageFlavor": self.image_flavor,
                "imageLocation": self.image_location, "imageType": self.image_type, "name": self.name,
                "modelIds": list(self.model_ids), "properties": self.properties, "tags": self.tags,
                "version": self.version, "workspaceName": self.workspace.name}

    @classmethod
    def deserialize(cls, workspace, image_payload):
        return cls(workspace, id=image_payload["id"])

    def __repr__(self):
        return "%s(workspace=%r, name=%s, id=%s, tags=%s, properties=%s, version=%s)" % (
            type(self).__name__, self.workspace, self.name, self.id, self.tags, self.properties, self.version)

    @property
    def models(self):
        return [Model(self.workspace, id=model_id) for model_id in self.model_ids]

    @classmethod
    def _of_asset(cls, workspace, asset):
        found = Image._types.get(asset["body"].get("image_flavor"), Image._types[None])
        if not issubclass(found, cls):
            raise WebserviceException("The image %s is of flavor %s, so it is no %s." % (
                asset["name"], asset["body"].get("image_flavor"), cls.__name__))
        made = object.__new__(found)
        made._take(workspace, asset)
        return made

    def _take(self, workspace, asset):
        body = asset["body"]
        self.workspace = workspace
        self.name, self.version = asset["name"], asset["version"]
        self.id = "%s:%s" % (asset["name"], asset["version"])
        self.created_time, self.description = parse_time(asset["created_at"]), body.get("description")
        self.creation_state = body.get("creation_state", "Succeeded")
        self.image_type, self.image_flavor = body.get("image_type"), body.get("image_flavor")
        self.image_location, self.image_build_log_uri, self.generated_dockerfile_uri = None, None, None
        self.model_ids = list(body.get("models") or [])
        self.tags, self.properties = dict(asset.get("tags") or {}), dict(body.get("properties") or {})
        self._stored_models, self._stored_inference = self.model_ids, body.get("inference")

    def _patch(self, **changes):
        with webservice_errors():
            asset = patch_asset(self.workspace, "images", self.name, self.version, **changes)
        self._take(self.workspace, asset)


class ImageConfig(ABC):
    """Settings of an image besides its models."""

    @abstractmethod
    def build_create_payload(self, workspace, name, model_ids):
        """Request body of the image; uploads its files first."""

    @abstractmethod
    def validate_configuration(self):
        """Raises WebserviceException for an invalid value."""


def _listed(workspace, name, tags, properties):
    with webservice_errors():
        assets = list_assets(workspace, "images", name=name)
    found = [Image._of_asset(workspace, asset) for asset in sorted(
        assets, key=lambda asset: (asset["created_at"], asset["version"]), reverse=True)]
    return [image for image in found if has_all(image.tags, tags) and has_all(image.properties, properties)]


def _find(workspace, name, id, tags, properties, version):
    if id is not None:
        name, _, version = id.rpartition(":")
    if not name:
        raise WebserviceException("Give the name or the id (name:version) of an image.")
    with webservice_errors():
        assets = list_assets(workspace, "images", name=name)
    found = [asset for asset in assets if (version is None or str(asset["version"]) == str(version))
             and has_all(asset.get("tags") or {}, tags) and has_all(asset["body"].get("properties") or {}, properties)]
    if not found:
        raise WebserviceException("ImageNotFound: There is no image %r%s in workspace %r." % (
            name, " with version %s" % version if version is not None else "", workspace.name), status_code=404)
    return max(found, key=lambda asset: asset["version"])


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
    """Interpreter of an image."""

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
