from azureml.data._datastore_files import StoredFiles
from azureml.data.abstract_datastore import AbstractDatastore
from azureml.data.data_reference import DataReference  # noqa: F401
from azureml.exceptions import UserErrorException  # noqa: F401


class AbstractAzureStorageDatastore(StoredFiles, AbstractDatastore):
    """A container of files. The two default datastores of a workspace are folders that the service keeps."""

    def __init__(self, workspace, name, datastore_type, container_name, account_name, sas_token=None, account_key=None,
                 protocol=None, endpoint=None):
        super(AbstractAzureStorageDatastore, self).__init__(workspace, name, datastore_type)
        self.container_name = container_name
        self.account_name = account_name
        self.sas_token = sas_token
        self.account_key = account_key
        self.protocol = protocol
        self.endpoint = endpoint
        self.credential_type = "Sas" if sas_token else "AccountKey" if account_key else "None"

    @property
    def is_sas(self):
        return self.credential_type == "Sas"

    @property
    def sas_token(self):
        """Registered token; requested from the service, for its owner only."""
        return self._credential("sas_token")

    @sas_token.setter
    def sas_token(self, sas_token):
        self._credentials["sas_token"] = sas_token

    @property
    def account_key(self):
        """Registered key; requested from the service, for its owner only."""
        return self._credential("account_key")

    @account_key.setter
    def account_key(self, account_key):
        self._credentials["account_key"] = account_key


class AzureBlobDatastore(AbstractAzureStorageDatastore):
    def __init__(self, workspace, name, container_name, account_name, sas_token=None, account_key=None, protocol=None,
                 endpoint=None, request_session=None, workspace_msi_has_access=False, subscription_id=None,
                 resource_group=None, service_data_access_auth_identity=None):
        super(AzureBlobDatastore, self).__init__(
            workspace, name, "AzureBlob", container_name, account_name, sas_token, account_key, protocol, endpoint)
        self.blob_service = None
        self.workspace_msi_has_access = workspace_msi_has_access
        self.subscription_id = subscription_id
        self.resource_group = resource_group
        self.service_data_access_auth_identity = service_data_access_auth_identity


class AzureFileDatastore(AbstractAzureStorageDatastore):
    def __init__(self, workspace, name, container_name, account_name, sas_token=None, account_key=None, protocol=None,
                 endpoint="core.windows.net", request_session=None):
        super(AzureFileDatastore, self).__init__(
            workspace, name, "AzureFile", container_name, account_name, sas_token, account_key, protocol, endpoint)
        self.file_service = None
