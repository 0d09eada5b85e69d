"""Azure compute targets without an equivalent in Runyard: configurable as in the original, refused when used."""

from azureml._unsupported import not_yet_class, unsupported
from azureml.core.compute.compute import (
    ComputeTarget, ComputeTargetAttachConfiguration, ComputeTargetProvisioningConfiguration)


class _Settings(object):
    """Keeps its arguments as attributes."""

    def _keep(self, names, args, kwargs):
        given = dict(zip(names, args), **kwargs)
        unknown = sorted(set(given) - set(names))
        if unknown or len(args) > len(names):
            raise TypeError("%s takes %s; got also %s." % (
                type(self).__name__, ", ".join(names), ", ".join(unknown) or "more positional arguments"))
        for name in names:
            setattr(self, name, given.get(name))


def _configuration(name, parent, names, module):
    def __init__(self, *args, **kwargs):
        self._keep(names, args, kwargs)
        self._compute_type = name

    return type(parent)(name, (_Settings, parent), {"__init__": __init__, "__module__": module})


def _refusal(kind):
    return unsupported(kind, "Create an AmlCompute cluster (a set of slots of this machine), or submit to 'local'.")


def _compute(name, module, attach=None, provision=None, **members):
    """Return a compute class whose configurations can be built, and whose create and attach raise."""

    def attach_anywhere(workspace, target_name, *args, **kwargs):
        raise _refusal("%s (compute target %r)" % (name, target_name))

    def create(cls, workspace, target_name, configuration):
        raise _refusal("%s (compute target %r)" % (name, target_name))

    members.update(_compute_type=name, __module__=module, attach=staticmethod(attach_anywhere),
                   _create=classmethod(create), __doc__="Not available in Runyard: creating or attaching one raises.")
    if attach:
        members["attach_configuration"] = staticmethod(lambda *args, **kwargs: attach(*args, **kwargs))
    if provision:
        members["provisioning_configuration"] = staticmethod(lambda *args, **kwargs: provision(*args, **kwargs))
    made = type(ComputeTarget)(name, (ComputeTarget,), members)
    if provision:
        provision._compute_class = made
    return made


def _attached(name, module, configuration, names, **members):
    attach = _configuration(configuration, ComputeTargetAttachConfiguration, names, module)
    return _compute(name, module, attach=attach, **members), attach


_PACKAGE = "azureml.core.compute."
_ACCOUNT = ("resource_group", "account_name", "resource_id")
_SSH = ("ssh_port", "password", "private_key_file", "private_key_passphrase")


AdlaCompute, DataLakeAnalyticsAttachConfiguration = _attached(
    "AdlaCompute", _PACKAGE + "adla", "DataLakeAnalyticsAttachConfiguration", _ACCOUNT)
BatchCompute, BatchAttachConfiguration = _attached(
    "BatchCompute", _PACKAGE + "batch", "BatchAttachConfiguration", _ACCOUNT)
DatabricksCompute, DatabricksAttachConfiguration = _attached(
    "DatabricksCompute", _PACKAGE + "databricks", "DatabricksAttachConfiguration",
    ("resource_group", "workspace_name", "resource_id", "access_token"))
HDInsightCompute, HDInsightAttachConfiguration = _attached(
    "HDInsightCompute", _PACKAGE + "hdinsight", "HDInsightAttachConfiguration",
    ("username", "subscription_id", "resource_group", "cluster_name", "resource_id", "address") + _SSH)
RemoteCompute, RemoteComputeAttachConfiguration = _attached(
    "RemoteCompute", _PACKAGE + "remote", "RemoteComputeAttachConfiguration",
    ("username", "subscription_id", "resource_group", "vm_name", "resource_id", "address") + _SSH)
KubernetesCompute, KubernetesComputeAttachConfiguration = _attached(
    "KubernetesCompute", _PACKAGE + "kubernetescompute", "KubernetesComputeAttachConfiguration",
    ("resource_id", "namespace", "identity_type", "identity_ids"))
KustoCompute, KustoAttachConfiguration = _attached(
    "KustoCompute", _PACKAGE + "kusto", "KustoAttachConfiguration",
    ("resource_group", "workspace_name", "resource_id", "tenant_id", "kusto_connection_string", "application_id",
     "application_key"))
SynapseCompute, SynapseAttachConfiguration = _attached(
    "SynapseCompute", _PACKAGE + "synapse", "SynapseAttachConfiguration", ("linked_service", "type", "pool_name"))

DsvmProvisioningConfiguration = _configuration(
    "DsvmProvisioningConfiguration", ComputeTargetProvisioningConfiguration, ("vm_size", "ssh_port", "location"),
    _PACKAGE + "dsvm")
DsvmCompute = _compute("DsvmCompute", _PACKAGE + "dsvm", provision=DsvmProvisioningConfiguration)

DataFactoryProvisioningConfiguration = _configuration(
    "DataFactoryProvisioningConfiguration", ComputeTargetProvisioningConfiguration, ("location",),
    _PACKAGE + "datafactory")
DataFactoryCompute, DataFactoryAttachConfiguration = _attached(
    "DataFactoryCompute", _PACKAGE + "datafactory", "DataFactoryAttachConfiguration",
    ("resource_group", "factory_name", "resource_id"), provision=DataFactoryProvisioningConfiguration)

ComputeInstanceProvisioningConfiguration = _configuration(
    "ComputeInstanceProvisioningConfiguration", ComputeTargetProvisioningConfiguration,
    ("vm_size", "ssh_public_access", "admin_user_ssh_public_key", "vnet_resourcegroup_name", "vnet_name",
     "subnet_name", "tags", "description", "assigned_user_object_id", "assigned_user_tenant_id"),
    _PACKAGE + "computeinstance")
ComputeInstance = _compute("ComputeInstance", _PACKAGE + "computeinstance",
                           provision=ComputeInstanceProvisioningConfiguration)

ComputeInstanceStatus = not_yet_class("ComputeInstanceStatus", _PACKAGE + "computeinstance")
KubernetesComputeStatus = not_yet_class("KubernetesComputeStatus", _PACKAGE + "kubernetescompute")
