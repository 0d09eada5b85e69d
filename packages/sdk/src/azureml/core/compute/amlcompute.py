from azureml.core.compute._cluster import AmlComputeNodeStateCounts, AmlComputeStatus, ScaleSettings  # noqa: F401
from azureml.core.compute._cluster import Cluster, check_scale
from azureml.core.compute.compute import put_target
from azureml.core.compute.compute import (  # noqa: F401
    MLC_COMPUTE_RESOURCE_ID_FMT, MLC_WORKSPACE_API_VERSION, ComputeTarget, ComputeTargetProvisioningConfiguration)
from azureml.exceptions import ComputeTargetException

DEFAULT_PAGE_SIZE = 500

_PRIORITIES = ("dedicated", "lowpriority")


class AmlCompute(Cluster):
    """A cluster of min_nodes to max_nodes nodes. A node is a slot of this machine, or of the server's Ray cluster."""

    _compute_type = "AmlCompute"

    @staticmethod
    def provisioning_configuration(vm_size="", vm_priority="dedicated", min_nodes=0, max_nodes=None,
                                   idle_seconds_before_scaledown=1800, admin_username=None, admin_user_password=None,
                                   admin_user_ssh_key=None, vnet_resourcegroup_name=None, vnet_name=None,
                                   subnet_name=None, tags=None, description=None,
                                   remote_login_port_public_access="NotSpecified", identity_type=None,
                                   identity_id=None, location=None, enable_node_public_ip=True):
        return AmlComputeProvisioningConfiguration(
            vm_size, vm_priority, min_nodes, max_nodes, idle_seconds_before_scaledown, admin_username,
            admin_user_password, admin_user_ssh_key, vnet_resourcegroup_name, vnet_name, subnet_name, tags,
            description, remote_login_port_public_access, identity_type, identity_id, location, enable_node_public_ip)

    @staticmethod
    def supported_vmsizes(workspace, location=None):
        """Sizes by name, for code that looks one up. On this machine any size is accepted: a node is a slot."""
        return [dict(zip(("name", "vCPUs", "gpus", "memoryGB", "maxResourceVolumeMB"), size)) for size in _VM_SIZES]

    def get(self):
        return self.serialize()

    def add_identity(self, identity_type, identity_id=None):
        raise _no_identity()

    def remove_identity(self, identity_id=None):
        raise _no_identity()

    @staticmethod
    def list_usages(workspace, show_all=False, location=None):
        return []

    @staticmethod
    def list_quotas(workspace, location=None):
        return []

    @staticmethod
    def update_quotas(workspace, vm_family, limit=None, location=None):
        from azureml._unsupported import unsupported
        raise unsupported("Changing quotas", "This machine's own cores, memory and GPUs are the limit.")

    @staticmethod
    def deserialize(workspace, object_dict):
        return AmlCompute(workspace, object_dict["name"])

    def serialize(self):
        written = super(AmlCompute, self).serialize()
        written["properties"].update(status=self.status.serialize() if self.status else None, properties={
            "vmSize": self.vm_size, "vmPriority": self.vm_priority, "scaleSettings": self.scale_settings.serialize()})
        return written

    @classmethod
    def _create(cls, workspace, name, configuration):
        return put_target(cls, workspace, name, configuration._body(workspace), configuration.tags)

    def _take(self, workspace, asset):
        super(AmlCompute, self)._take(workspace, asset)
        network = asset["body"].get("vnet") or {}
        self.vnet_resourcegroup_name = network.get("resource_group")
        self.vnet_name, self.subnet_name = network.get("name"), network.get("subnet")
        self.admin_username = self.admin_user_password = self.admin_user_ssh_key = None
        self.remote_login_port_public_access = "NotSpecified"
        self.identity_type = self.identity_id = None


class AmlComputeProvisioningConfiguration(ComputeTargetProvisioningConfiguration):
    """Settings of a new cluster. Raises ComputeTargetException for contradictions."""

    _compute_class = AmlCompute

    def __init__(self, vm_size="", vm_priority="dedicated", min_nodes=0, max_nodes=None,
                 idle_seconds_before_scaledown=1800, admin_username=None, admin_user_password=None,
                 admin_user_ssh_key=None, vnet_resourcegroup_name=None, vnet_name=None, subnet_name=None, tags=None,
                 description=None, remote_login_port_public_access="NotSpecified", identity_type=None,
                 identity_id=None, compute_location=None, enable_node_public_ip=True):
        super(AmlComputeProvisioningConfiguration, self).__init__("AmlCompute", compute_location)
        self.vm_size = vm_size
        self.vm_priority = vm_priority
        self.scale_settings = ScaleSettings(min_nodes, max_nodes, idle_seconds_before_scaledown)
        self.admin_username = admin_username
        self.admin_user_password = admin_user_password
        self.admin_user_ssh_key = admin_user_ssh_key
        self.vnet_resourcegroup_name = vnet_resourcegroup_name
        self.vnet_name = vnet_name
        self.subnet_name = subnet_name
        self.tags = tags
        self.description = description
        self.remote_login_port_public_access = remote_login_port_public_access
        self.identity_type = identity_type
        self.identity_id = identity_id
        self.compute_location = compute_location
        self.enable_node_public_ip = enable_node_public_ip
        self.validate_configuration()

    def validate_configuration(self):
        check_scale(self.scale_settings.minimum_node_count, self.scale_settings.maximum_node_count)
        if self.vm_priority not in _PRIORITIES:
            raise ComputeTargetException("vm_priority must be 'dedicated' or 'lowpriority', got %r." % (
                self.vm_priority,))
        if self.admin_username and not (self.admin_user_password or self.admin_user_ssh_key):
            raise ComputeTargetException("admin_username needs admin_user_password or admin_user_ssh_key.")
        network = (self.vnet_resourcegroup_name, self.vnet_name, self.subnet_name)
        if any(network) and not all(network):
            raise ComputeTargetException("vnet_resourcegroup_name, vnet_name and subnet_name go together: give all "
                                         "three or none.")

    def _body(self, workspace):
        scale = self.scale_settings
        network = {"resource_group": self.vnet_resourcegroup_name, "name": self.vnet_name, "subnet": self.subnet_name}
        return {"type": "AmlCompute", "vm_size": self.vm_size, "vm_priority": self.vm_priority,
                "min_nodes": scale.minimum_node_count, "max_nodes": scale.maximum_node_count,
                "idle_seconds_before_scaledown": scale.idle_seconds_before_scaledown,
                "description": self.description, "location": self.location or workspace.location,
                "provisioning_state": "Succeeded", "vnet": network if self.vnet_name else None}


def _no_identity():
    from azureml._unsupported import unsupported
    return unsupported("An Azure identity of a cluster", "Clusters run as the user who started the service.")


_VM_SIZES = (
    ("Standard_D1_v2", 1, 0, 3.5, 51200), ("Standard_D2_v2", 2, 0, 7.0, 102400),
    ("Standard_D3_v2", 4, 0, 14.0, 204800), ("Standard_D4_v2", 8, 0, 28.0, 409600),
    ("Standard_D12_v2", 4, 0, 28.0, 204800), ("Standard_DS3_v2", 4, 0, 14.0, 28672),
    ("Standard_DS12_v2", 4, 0, 28.0, 57344), ("Standard_F4s_v2", 4, 0, 8.0, 32768),
    ("Standard_NC6", 6, 1, 56.0, 389120), ("Standard_NC12", 12, 2, 112.0, 696320),
    ("Standard_NC24", 24, 4, 224.0, 1474560), ("Standard_NC24r", 24, 4, 224.0, 1474560),
    ("Standard_NC6s_v2", 6, 1, 112.0, 753664), ("Standard_NC6s_v3", 6, 1, 112.0, 753664),
    ("Standard_NC12s_v3", 12, 2, 224.0, 1474560), ("Standard_NC24rs_v3", 24, 4, 448.0, 2949120),
    ("Standard_ND6s", 6, 1, 112.0, 753664), ("Standard_NV6", 6, 1, 56.0, 389120))

ComputeTarget._types["AmlCompute"] = AmlCompute
