from azureml.data._unsupported import DATA_LAKE, refused_class
from azureml.data._datastore_files import StoredFiles
from azureml.data.abstract_datastore import AbstractDatastore


class AbstractADLSDatastore(AbstractDatastore):
    def __init__(self, workspace, name, datastore_type, tenant_id, client_id, client_secret, resource_url,
                 authority_url, service_data_access_auth_identity):
        super(AbstractADLSDatastore, self).__init__(workspace, name, datastore_type)
        self.tenant_id = tenant_id
        self.client_id = client_id
        self.client_secret = client_secret
        self.resource_url = resource_url
        self.authority_url = authority_url
        self.service_data_access_auth_identity = service_data_access_auth_identity

    @property
    def client_secret(self):
        """Registered secret; requested from the service, for its owner only."""
        return self._credential("client_secret")

    @client_secret.setter
    def client_secret(self, client_secret):
        self._credentials["client_secret"] = client_secret


class AzureDataLakeGen2Datastore(StoredFiles, AbstractADLSDatastore):
    """A file system of a storage account with hierarchical namespace. Unlike the original it has upload and download.
    """

    def __init__(self, workspace, name, container_name, account_name, tenant_id=None, client_id=None,
                 client_secret=None, resource_url=None, authority_url=None, protocol=None, endpoint=None,
                 service_data_access_auth_identity=None):
        super(AzureDataLakeGen2Datastore, self).__init__(
            workspace, name, "AzureDataLakeGen2", tenant_id, client_id, client_secret, resource_url, authority_url,
            service_data_access_auth_identity)
        self.container_name = container_name
        self.account_name = account_name
        self.protocol = protocol
        self.endpoint = endpoint


AzureDataLakeDatastore = refused_class("AzureDataLakeDatastore", DATA_LAKE)
