from azureml._not_yet import not_yet
from azureml.data.azure_storage_datastore import AzureBlobDatastore, AzureFileDatastore
from azureml.exceptions import UserErrorException

_FILE_STORE = "workspacefilestore"


class Datastore(object):
    """Datastore(workspace, name) gives the datastore of that name, or the default one without a name."""

    def __new__(cls, workspace, name=None):
        return cls.get_default(workspace) if name is None else cls.get(workspace, name)

    def __init__(self, workspace, name=None):
        self.workspace = workspace
        self.name = name

    @staticmethod
    def get(workspace, datastore_name):
        from azureml._assets import find_asset, list_assets
        asset = find_asset(workspace, "datastores", datastore_name)
        if asset is None:
            known = sorted(one["name"] for one in list_assets(workspace, "datastores", latest=True))
            raise UserErrorException("There is no datastore %r in workspace %r. Known: %s." % (
                datastore_name, workspace.name, ", ".join(map(repr, known)) or "none"))
        return _of_asset(workspace, asset)

    @staticmethod
    def get_default(workspace):
        from azureml._assets import list_assets
        assets = list_assets(workspace, "datastores", latest=True)
        default = [asset for asset in assets if asset["body"].get("is_default")]
        if not default:
            raise UserErrorException("The workspace %r has no default datastore; call set_as_default() on one." % (
                workspace.name,))
        return _of_asset(workspace, default[0])

    def set_as_default(self):
        """Every datastore has it; here for the name alone."""
        raise NotImplementedError

    def unregister(self):
        """Every datastore has it; here for the name alone."""
        raise NotImplementedError

    @staticmethod
    def register_azure_blob_container(workspace, datastore_name, container_name, account_name, sas_token=None,
                                      account_key=None, protocol=None, endpoint=None, overwrite=False,
                                      create_if_not_exists=False, skip_validation=False, blob_cache_timeout=None,
                                      grant_workspace_access=False, subscription_id=None, resource_group=None):
        raise _register("an Azure blob container", datastore_name)

    @staticmethod
    def register_azure_file_share(workspace, datastore_name, file_share_name, account_name, sas_token=None,
                                  account_key=None, protocol=None, endpoint=None, overwrite=False,
                                  create_if_not_exists=False, skip_validation=False):
        raise _register("an Azure file share", datastore_name)

    @staticmethod
    def register_azure_data_lake(workspace, datastore_name, store_name, tenant_id=None, client_id=None,
                                 client_secret=None, resource_url=None, authority_url=None, subscription_id=None,
                                 resource_group=None, overwrite=False, grant_workspace_access=False):
        raise _register("an Azure data lake", datastore_name)

    @staticmethod
    def register_azure_data_lake_gen2(workspace, datastore_name, filesystem, account_name, tenant_id=None,
                                      client_id=None, client_secret=None, resource_url=None, authority_url=None,
                                      protocol=None, endpoint=None, overwrite=False, subscription_id=None,
                                      resource_group=None, grant_workspace_access=False):
        raise _register("an Azure data lake", datastore_name)

    @staticmethod
    def register_azure_sql_database(workspace, datastore_name, server_name, database_name, tenant_id=None,
                                    client_id=None, client_secret=None, resource_url=None, authority_url=None,
                                    endpoint=None, overwrite=False, username=None, password=None, subscription_id=None,
                                    resource_group=None, grant_workspace_access=False, **kwargs):
        raise _register("an SQL database", datastore_name)

    @staticmethod
    def register_azure_postgre_sql(workspace, datastore_name, server_name, database_name, user_id, user_password,
                                   port_number=None, endpoint=None, overwrite=False, enforce_ssl=True, **kwargs):
        raise _register("a PostgreSQL database", datastore_name)

    @staticmethod
    def register_azure_my_sql(workspace, datastore_name, server_name, database_name, user_id, user_password,
                              port_number=None, endpoint=None, overwrite=False, **kwargs):
        raise _register("a MySQL database", datastore_name)

    @staticmethod
    def register_dbfs(workspace, datastore_name):
        raise _register("a Databricks file system", datastore_name)

    @staticmethod
    def register_hdfs(workspace, datastore_name, protocol, namenode_address, hdfs_server_certificate, kerberos_realm,
                      kerberos_kdc_address, kerberos_principal, kerberos_keytab=None, kerberos_password=None,
                      overwrite=False):
        raise _register("an HDFS", datastore_name)


def _of_asset(workspace, asset):
    made = AzureFileDatastore if asset["name"] == _FILE_STORE else AzureBlobDatastore
    return made(workspace, asset["name"], asset["name"], workspace.name)


def _register(kind, datastore_name):
    return not_yet("Registering %s as datastore %r" % (kind, datastore_name), 2)
