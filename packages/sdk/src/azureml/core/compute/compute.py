import re

from azureml.exceptions import ComputeTargetException, UserErrorException

MLC_COMPUTE_RESOURCE_ID_FMT = ("/subscriptions/{}/resourceGroups/{}/providers/Microsoft.MachineLearningServices"
                               "/workspaces/{}/computes/{}")
MLC_LIST_COMPUTES_FMT = MLC_COMPUTE_RESOURCE_ID_FMT[:-len("/{}")]
RP_COMPUTE_RESOURCE_ID_FMT = "/rp/workspaces" + MLC_COMPUTE_RESOURCE_ID_FMT
RP_LIST_COMPUTES_FMT = "/rp/workspaces" + MLC_LIST_COMPUTES_FMT
MLC_WORKSPACE_API_VERSION = "2020-02-02"

_RESERVED = ("amlcompute", "local", "containerinstance")
_NAME = r"^[A-Za-z][A-Za-z0-9-]{1,62}\Z"


class ComputeTarget(object):
    """A compute target of the workspace. ComputeTarget(workspace, name) returns an object of its concrete class."""

    _types = {}
    _compute_type = None

    def __new__(cls, workspace, name):
        made = object.__new__(cls)
        if workspace is None or not name:
            return made
        asset = _stored(workspace, name)
        found = cls._types.get(asset["body"].get("type"), cls)
        if cls is not ComputeTarget and not issubclass(found, cls):
            raise ComputeTargetException("The compute target %r is a %s, not a %s." % (
                name, found._compute_type, cls._compute_type))
        made = object.__new__(found)
        made._take(workspace, asset)
        return made

    def __init__(self, workspace, name):
        pass

    @staticmethod
    def create(workspace, name, provisioning_configuration):
        """Create the target; returns at once. An existing name is updated where the settings allow it."""
        _check_name(name)
        if not isinstance(provisioning_configuration, ComputeTargetProvisioningConfiguration):
            raise UserErrorException("provisioning_configuration must come from a provisioning_configuration(...) "
                                     "call, got %r." % (provisioning_configuration,))
        provisioning_configuration.validate_configuration()
        return provisioning_configuration._compute_class._create(workspace, name, provisioning_configuration)

    @staticmethod
    def attach(workspace, name, attach_configuration):
        """Attach an existing cluster, in Runyard a Ray cluster, whose address must answer. An existing name is updated.
        """
        _check_name(name)
        if not isinstance(attach_configuration, ComputeTargetAttachConfiguration):
            raise UserErrorException("attach_configuration must come from an attach_configuration(...) call, got %r."
                                     % (attach_configuration,))
        if attach_configuration._compute_class is None:
            from azureml._unsupported import unsupported
            raise unsupported("Attaching %r as %s" % (name, attach_configuration._compute_type),
                              "Attach a Ray cluster (RayCompute), create an AmlCompute cluster, or submit to 'local'.")
        attach_configuration.validate_configuration()
        return attach_configuration._compute_class._attach(workspace, name, attach_configuration)

    @staticmethod
    def list(workspace):
        from azureml._assets import list_assets
        return [ComputeTarget._of_asset(workspace, asset) for asset in list_assets(workspace, "computes", latest=True)]

    @staticmethod
    def deserialize(workspace, object_dict):
        return ComputeTarget(workspace, object_dict["name"])

    def serialize(self):
        return {"id": self.id, "name": self.name, "location": self.location, "tags": self.tags, "properties": {
            "computeType": self.type, "description": self.description, "provisioningState": self.provisioning_state,
            "provisioningErrors": self.provisioning_errors, "createdOn": self.created_on,
            "modifiedOn": self.modified_on, "isAttachedCompute": self.is_attached}}

    def refresh_state(self):
        """Refresh every attribute."""
        self._take(self.workspace, _stored(self.workspace, self.name))

    def get_status(self):
        self.refresh_state()
        return self.provisioning_state

    def wait_for_completion(self, show_output=False, is_delete_operation=False):
        """Wait until the target is provisioned, which is immediate."""
        if is_delete_operation:
            return
        self.refresh_state()
        if show_output:
            print(self.provisioning_state)

    def delete(self):
        """Remove the target. Returns at once."""
        from azureml._assets import delete_asset
        delete_asset(self.workspace, "computes", self.name)

    def detach(self):
        raise ComputeTargetException("%r was created, not attached, so it cannot be detached; call delete()." % (
            self.name,))

    def __repr__(self):
        return "%s(workspace=%r, name=%r, id=%s, type=%s, provisioning_state=%s, location=%s, tags=%s)" % (
            type(self).__name__, self.workspace.name, self.name, self.id, self.type, self.provisioning_state,
            self.location, self.tags)

    @classmethod
    def _of_asset(cls, workspace, asset):
        made = object.__new__(cls._types.get(asset["body"].get("type"), ComputeTarget))
        made._take(workspace, asset)
        return made

    def _take(self, workspace, asset):
        body = asset["body"]
        self.workspace = workspace
        self.name = asset["name"]
        self.id = MLC_COMPUTE_RESOURCE_ID_FMT.format(
            workspace.subscription_id, workspace.resource_group, workspace.name, asset["name"])
        self.type = body.get("type")
        self.tags = dict(asset.get("tags") or {})
        self.description = body.get("description")
        self.location = self.cluster_location = body.get("location")
        self.cluster_resource_id = None
        self.created_on, self.modified_on = asset["created_at"], asset["modified_at"]
        self.is_attached = False
        self.provisioning_state = body.get("provisioning_state", "Succeeded")
        self.provisioning_errors = None


class ComputeTargetProvisioningConfiguration(object):
    _compute_class = None

    def __init__(self, type, location):
        self._compute_type = type
        self.location = location

    def validate_configuration(self):
        """Raise ComputeTargetException where the settings contradict one another."""


class ComputeTargetAttachConfiguration(object):
    _compute_class = None

    def __init__(self, type):
        self._compute_type = type

    def validate_configuration(self):
        """Raise ComputeTargetException where the settings contradict one another."""


class ComputeTargetUpdateConfiguration(object):
    def __init__(self, type):
        self._compute_type = type

    def validate_configuration(self):
        """Raise ComputeTargetException where the settings contradict one another."""


def _check_name(name):
    if not isinstance(name, str) or name.lower() in _RESERVED:
        raise UserErrorException("%r is a reserved name; choose another name for the compute target." % (name,))
    if not re.match(_NAME, name):
        raise UserErrorException("A compute target name has 2 to 63 letters, digits and '-', and begins with a "
                                 "letter; got %r." % (name,))


def _stored(workspace, name):
    from azureml._assets import find_asset, list_assets
    asset = find_asset(workspace, "computes", name)
    if asset is None:
        known = sorted(one["name"] for one in list_assets(workspace, "computes", latest=True))
        raise ComputeTargetException("ComputeTargetNotFound: There is no compute target %r in workspace %r. Known: %s."
                                     % (name, workspace.name, ", ".join(map(repr, known)) or "none"))
    return asset


def put_target(target_class, workspace, name, body, tags):
    """Create a target, or update one of the same type; return its object."""
    from azureml._assets import create_asset, find_asset, patch_asset
    present = find_asset(workspace, "computes", name)
    if present is None:
        create_asset(workspace, "computes", name, body, tags=tags)
    elif present["body"].get("type") != body["type"]:
        raise ComputeTargetException("The compute target %r is there already, as %s. Choose another name, or "
                                     "remove that one first." % (name, present["body"].get("type")))
    else:
        patch_asset(workspace, "computes", name, body=body, tags=tags)
    return target_class(workspace, name)
