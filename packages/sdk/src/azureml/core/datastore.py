from azureml.core._registering_datastores import OwnRegistrations, RefusedRegistrations, register
from azureml.exceptions import UserErrorException


class Datastore(OwnRegistrations, RefusedRegistrations):
    """Datastore(workspace, name) gives the datastore of that name, or the default one without a name."""

    def __new__(cls, workspace, name=None):
        return cls.get_default(workspace) if name is None else cls.get(workspace, name)

    def __init__(self, workspace, name=None):
        self.workspace = workspace
        self.name = name

    @staticmethod
    def get(workspace, datastore_name):
        """The datastore of that name. UserErrorException, naming those there are, where there is none."""
        from azureml._assets import find_asset
        from azureml.data._datastore_kinds import datastore_of
        if not isinstance(datastore_name, str) or not datastore_name:
            raise UserErrorException("datastore_name must be a text such as 'workspaceblobstore', got %r." % (
                datastore_name,))
        asset = find_asset(workspace, "datastores", datastore_name)
        if asset is None:
            raise UserErrorException("There is no datastore %r in workspace %r. Known: %s." % (
                datastore_name, workspace.name, ", ".join(map(repr, sorted(all_datastores(workspace)))) or "none"))
        return datastore_of(workspace, asset)

    @staticmethod
    def get_default(workspace):
        from azureml._assets import list_assets
        from azureml.data._datastore_kinds import datastore_of
        assets = list_assets(workspace, "datastores", latest=True)
        default = [asset for asset in assets if asset["body"].get("is_default")]
        if not default:
            raise UserErrorException("The workspace %r has no default datastore; call set_as_default() on one." % (
                workspace.name,))
        return datastore_of(workspace, default[0])

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
        """Register a blob container; without sas_token and account_key it is read as a public one.

        `endpoint` is the suffix of the account's address, "core.windows.net" if None, or a whole address such as
        "http://127.0.0.1:10000/devstoreaccount1". Unless `skip_validation`, what is wrong with the container or its
        credentials is an error here. The other arguments mean something in the original's cloud alone.
        """
        credentials = {"sas_token": sas_token.lstrip("?")} if sas_token else {"account_key": account_key}
        return register(workspace, datastore_name, "azure_blob", {
            "account_name": account_name, "container_name": container_name, "protocol": protocol,
            "endpoint": endpoint}, credentials, overwrite, create_if_not_exists, skip_validation)

    @staticmethod
    def register_azure_data_lake_gen2(workspace, datastore_name, filesystem, account_name, tenant_id=None,
                                      client_id=None, client_secret=None, resource_url=None, authority_url=None,
                                      protocol=None, endpoint=None, overwrite=False, subscription_id=None,
                                      resource_group=None, grant_workspace_access=False):
        """Register a file system of a data lake of the second generation, reached as a service principal."""
        principal = {"tenant_id": tenant_id, "client_id": client_id, "client_secret": client_secret}
        missing = sorted(name for name, value in principal.items() if not value)
        if missing and len(missing) < len(principal):
            raise UserErrorException("tenant_id, client_id and client_secret go together; %s is missing." % missing[0])
        return register(workspace, datastore_name, "azure_data_lake_gen2", {
            "account_name": account_name, "filesystem": filesystem, "tenant_id": tenant_id, "client_id": client_id,
            "authority_url": authority_url, "protocol": protocol, "endpoint": endpoint},
            {"client_secret": client_secret}, overwrite)


def all_datastores(workspace):
    """Name to datastore."""
    from azureml._assets import list_assets
    from azureml.data._datastore_kinds import datastore_of
    return {asset["name"]: datastore_of(workspace, asset)
            for asset in list_assets(workspace, "datastores", latest=True)}
