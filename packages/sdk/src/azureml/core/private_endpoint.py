from azureml.core.authentication import InteractiveLoginAuthentication  # noqa: F401


class PrivateEndPointConfig(object):
    """Network settings of an Azure workspace; stored, without effect in Runyard."""

    def __init__(self, name, vnet_name, vnet_subnet_name=None, vnet_subscription_id=None, vnet_resource_group=None):
        self.name = name
        self.vnet_name = vnet_name
        self.vnet_subnet_name = vnet_subnet_name
        self.vnet_subscription_id = vnet_subscription_id
        self.vnet_resource_group = vnet_resource_group


class PrivateEndPoint(object):
    def __init__(self, private_endpoint_connection_resource_id=None, private_endpoint_resource_id=None):
        self.private_endpoint_connection_resource_id = private_endpoint_connection_resource_id
        self.private_endpoint_resource_id = private_endpoint_resource_id

    def delete(self, auth=None):
        raise _refusal()

    def get_details(self, auth=None):
        raise _refusal()


def _refusal():
    from azureml._unsupported import unsupported
    return unsupported("A private endpoint", "The service listens on this machine's loopback address alone.")
