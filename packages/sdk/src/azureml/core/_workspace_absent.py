from azureml._not_yet import not_yet, unsupported

_CLOUD_ONLY = "It belongs to the cloud that the original runs in; leave the call out."


class WorkspaceAbsent:
    """Members of a v1 workspace that mean nothing outside its cloud. Each says so in one sentence."""

    @property
    def private_endpoints(self):
        return {}

    @property
    def linked_services(self):
        return {}

    def add_private_endpoint(self, private_endpoint_config, private_endpoint_auto_approval=True, location=None,
                             show_output=True, tags=None):
        raise unsupported("Workspace.add_private_endpoint", _CLOUD_ONLY)

    def delete_private_endpoint_connection(self, private_endpoint_connection_name):
        raise unsupported("Workspace.delete_private_endpoint_connection", _CLOUD_ONLY)

    def set_connection(self, name, category, target, authType, value):
        raise unsupported("Workspace.set_connection", "Keep the secret in get_default_keyvault() instead.")

    def get_connection(self, name):
        raise unsupported("Workspace.get_connection", "Read the secret from get_default_keyvault() instead.")

    def list_connections(self, category=None, target=None):
        return []

    def delete_connection(self, name):
        raise unsupported("Workspace.delete_connection", "Delete the secret from get_default_keyvault() instead.")

    def diagnose_workspace(self, diagnose_parameters):
        raise unsupported("Workspace.diagnose_workspace", "Run 'runyard doctor' on the machine instead.")

    def list_keys(self):
        raise unsupported("Workspace.list_keys", _CLOUD_ONLY)

    def sync_keys(self, no_wait=False):
        """Nothing to do: there are no keys of other services here."""

    def update_dependencies(self, container_registry=None, force=False):
        raise unsupported("Workspace.update_dependencies", _CLOUD_ONLY)

    def get_mlflow_tracking_uri(self, _with_auth=False):
        raise not_yet("Workspace.get_mlflow_tracking_uri")
