from azureml.exceptions import UserErrorException  # noqa: F401


class LinkedServiceConfiguration(object):
    """Settings of an Azure service linked to a workspace."""


class SynapseWorkspaceLinkedServiceConfiguration(LinkedServiceConfiguration):
    def __init__(self, subscription_id, resource_group, name):
        self.subscription_id = subscription_id
        self.resource_group = resource_group
        self.name = name


class LinkedService(object):
    """An Azure service linked to a workspace; Runyard has none."""

    def __init__(self, workspace, name, type, linked_service_resource_id, system_assigned_identity_principal_id):
        self._name = name
        self._type = type
        self._linked_service_resource_id = linked_service_resource_id
        self._system_assigned_identity_principal_id = system_assigned_identity_principal_id

    @property
    def name(self):
        return self._name

    @property
    def type(self):
        return self._type

    @property
    def linked_service_resource_id(self):
        return self._linked_service_resource_id

    @property
    def system_assigned_identity_principal_id(self):
        return self._system_assigned_identity_principal_id

    @staticmethod
    def list(workspace):
        return []

    @staticmethod
    def get(workspace, name):
        raise UserErrorException("The workspace %r has no linked service %r." % (workspace.name, name))

    @staticmethod
    def register(workspace, name, linked_service_config):
        raise _refusal()

    def unregister(self):
        raise _refusal()


def _refusal():
    from azureml._unsupported import unsupported
    return unsupported("Linking a service of Azure", "A workspace lives on this machine alone.")
