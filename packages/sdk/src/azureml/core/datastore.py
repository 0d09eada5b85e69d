"""`Datastore`, with registration of the kinds that Runyard adds, and refusal of kinds that exist only in Azure."""

from azureml.data import _unsupported
from azureml.exceptions import UserErrorException


def _register(workspace, datastore_name, kind, settings, credentials, overwrite=False, create_if_not_exists=False,
              skip_validation=False):
    """Store and return a datastore. Its credentials are stored encrypted by the service, and nowhere else."""
    from azureml.data._datastore_kinds import datastore_of
    if not isinstance(datastore_name, str) or not datastore_name:
        raise UserErrorException("datastore_name must be a text such as 'images', got %r." % (datastore_name,))
    return datastore_of(workspace, workspace._client.post(workspace._path("datastores"), {
        "name": datastore_name, "kind": kind, "settings": _given(settings), "credentials": _given(credentials),
        "overwrite": bool(overwrite), "create_if_not_exists": bool(create_if_not_exists),
        "skip_validation": bool(skip_validation)}))


class _SupportedRegistrations(object):
    """Datastore kinds that SDK v1 does not have."""

    @staticmethod
    def register_s3_bucket(workspace, datastore_name, bucket, prefix=None, region=None, endpoint=None,
                           access_key_id=None, secret_access_key=None, session_token=None, overwrite=False,
                           create_if_not_exists=False, skip_validation=False):
        """Register a bucket of Amazon S3, or of any server that speaks its protocol.

        >>> Datastore.register_s3_bucket(ws, "images", "my-bucket", region="eu-west-1",
        ...                              access_key_id=key, secret_access_key=secret)

        `prefix` takes a folder of the bucket for the whole. `endpoint` is the address of another server than Amazon's,
        such as "http://127.0.0.1:9000". Without keys the bucket is read as a public one.
        """
        return _register(workspace, datastore_name, "s3", {
            "bucket": bucket, "prefix": _folder(prefix), "region": region, "endpoint": endpoint}, {
            "access_key_id": access_key_id, "secret_access_key": secret_access_key, "session_token": session_token},
            overwrite, create_if_not_exists, skip_validation)

    @staticmethod
    def register_google_cloud_storage(workspace, datastore_name, bucket, prefix=None, service_account_key=None,
                                      endpoint=None, overwrite=False, skip_validation=False):
        """Register a bucket of Google Cloud Storage.

        >>> with open("service-account.json") as file:
        ...     Datastore.register_google_cloud_storage(ws, "images", "my-bucket", service_account_key=file.read())

        `service_account_key` is the JSON text of the key file, or that JSON as a dict. Without it the bucket is read
        as a public one. `prefix` takes a folder of the bucket for the whole.
        """
        import json
        if isinstance(service_account_key, dict):
            service_account_key = json.dumps(service_account_key)
        return _register(workspace, datastore_name, "gcs", {
            "bucket": bucket, "prefix": _folder(prefix), "endpoint": endpoint},
            {"service_account_key": service_account_key}, overwrite, False, skip_validation)

    @staticmethod
    def register_folder(workspace, datastore_name, folder, overwrite=False, create_if_not_exists=False,
                        skip_validation=False):
        """Register a folder of the machine that the service runs on: a disk, or a network share mounted there.

        >>> Datastore.register_folder(ws, "scans", "/mnt/scans")

        Runs see it in place: mounting it copies nothing. It must be an absolute path; `~` is yours, expanded here.
        """
        import os
        if not isinstance(folder, (str, os.PathLike)) or not str(folder):
            raise UserErrorException("folder must be a path such as '/mnt/scans', got %r." % (folder,))
        path = os.path.abspath(os.path.expanduser(str(folder)))
        return _register(workspace, datastore_name, "folder", {"folder": path}, {}, overwrite, create_if_not_exists,
                         skip_validation)

    @staticmethod
    def register_web(workspace, datastore_name, address, overwrite=False, skip_validation=False):
        """Register a web address whose files are named by their path below it.

        >>> Datastore.register_web(ws, "mnist", "https://example.com/exdb/mnist")
        >>> Dataset.File.from_files((Datastore(ws, "mnist"), "train-images-idx3-ubyte.gz"))

        It is read-only and cannot be listed: globs and folders find nothing there.
        """
        return _register(workspace, datastore_name, "web", {"address": address}, {}, overwrite, False, skip_validation)


class _RefusedRegistrations(object):
    """Datastore kinds that exist only in Azure. Each method says what to use instead."""

    @staticmethod
    def register_azure_file_share(workspace, datastore_name, file_share_name, account_name, sas_token=None,
                                  account_key=None, protocol=None, endpoint=None, overwrite=False,
                                  create_if_not_exists=False, skip_validation=False):
        raise _unsupported.refused("an Azure file share", datastore_name, _unsupported.FILE_SHARE)

    @staticmethod
    def register_azure_data_lake(workspace, datastore_name, store_name, tenant_id=None, client_id=None,
                                 client_secret=None, resource_url=None, authority_url=None, subscription_id=None,
                                 resource_group=None, overwrite=False, grant_workspace_access=False):
        raise _unsupported.refused("a data lake of the first generation", datastore_name, _unsupported.DATA_LAKE)

    @staticmethod
    def register_azure_sql_database(workspace, datastore_name, server_name, database_name, tenant_id=None,
                                    client_id=None, client_secret=None, resource_url=None, authority_url=None,
                                    endpoint=None, overwrite=False, username=None, password=None, subscription_id=None,
                                    resource_group=None, grant_workspace_access=False, **kwargs):
        raise _unsupported.refused("an SQL database", datastore_name, _unsupported.DATABASE)

    @staticmethod
    def register_azure_postgre_sql(workspace, datastore_name, server_name, database_name, user_id, user_password,
                                   port_number=None, endpoint=None, overwrite=False, enforce_ssl=True, **kwargs):
        raise _unsupported.refused("a PostgreSQL database", datastore_name, _unsupported.DATABASE)

    @staticmethod
    def register_azure_my_sql(workspace, datastore_name, server_name, database_name, user_id, user_password,
                              port_number=None, endpoint=None, overwrite=False, **kwargs):
        raise _unsupported.refused("a MySQL database", datastore_name, _unsupported.DATABASE)

    @staticmethod
    def register_dbfs(workspace, datastore_name):
        raise _unsupported.refused("a Databricks file system", datastore_name, _unsupported.DBFS)

    @staticmethod
    def register_hdfs(workspace, datastore_name, protocol, namenode_address, hdfs_server_certificate, kerberos_realm,
                      kerberos_kdc_address, kerberos_principal, kerberos_keytab=None, kerberos_password=None,
                      overwrite=False):
        raise _unsupported.refused("an HDFS", datastore_name, _unsupported.HDFS)


def _given(values):
    return {name: value for name, value in values.items() if value is not None}


def _folder(prefix):
    return prefix.strip("/") or None if isinstance(prefix, str) else prefix


class Datastore(_SupportedRegistrations, _RefusedRegistrations):
    """Datastore(workspace, name) returns the datastore of that name, or the default one without a name."""

    def __new__(cls, workspace, name=None):
        return cls.get_default(workspace) if name is None else cls.get(workspace, name)

    def __init__(self, workspace, name=None):
        self.workspace = workspace
        self.name = name

    @staticmethod
    def get(workspace, datastore_name):
        """Return the datastore of that name. Raises UserErrorException, with the known names, if there is none."""
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
        """Declared for its name; every datastore implements it."""
        raise NotImplementedError

    def unregister(self):
        """Declared for its name; every datastore implements it."""
        raise NotImplementedError

    @staticmethod
    def register_azure_blob_container(workspace, datastore_name, container_name, account_name, sas_token=None,
                                      account_key=None, protocol=None, endpoint=None, overwrite=False,
                                      create_if_not_exists=False, skip_validation=False, blob_cache_timeout=None,
                                      grant_workspace_access=False, subscription_id=None, resource_group=None):
        """Register a blob container; without sas_token and account_key it is read as a public one.

        `endpoint` is the suffix of the account's address, "core.windows.net" if None, or a URL such as
        "http://127.0.0.1:10000/devstoreaccount1". Unless `skip_validation`, an unreachable container or wrong
        credentials raise here. The other arguments have no effect outside Azure.
        """
        credentials = {"sas_token": sas_token.lstrip("?")} if sas_token else {"account_key": account_key}
        return _register(workspace, datastore_name, "azure_blob", {
            "account_name": account_name, "container_name": container_name, "protocol": protocol,
            "endpoint": endpoint}, credentials, overwrite, create_if_not_exists, skip_validation)

    @staticmethod
    def register_azure_data_lake_gen2(workspace, datastore_name, filesystem, account_name, tenant_id=None,
                                      client_id=None, client_secret=None, resource_url=None, authority_url=None,
                                      protocol=None, endpoint=None, overwrite=False, subscription_id=None,
                                      resource_group=None, grant_workspace_access=False):
        """Register a file system of Azure Data Lake Storage Gen2, accessed as a service principal."""
        principal = {"tenant_id": tenant_id, "client_id": client_id, "client_secret": client_secret}
        missing = sorted(name for name, value in principal.items() if not value)
        if missing and len(missing) < len(principal):
            raise UserErrorException("tenant_id, client_id and client_secret go together; %s is missing." % missing[0])
        return _register(workspace, datastore_name, "azure_data_lake_gen2", {
            "account_name": account_name, "filesystem": filesystem, "tenant_id": tenant_id, "client_id": client_id,
            "authority_url": authority_url, "protocol": protocol, "endpoint": endpoint},
            {"client_secret": client_secret}, overwrite)


def all_datastores(workspace):
    """Datastores of the workspace by name."""
    from azureml._assets import list_assets
    from azureml.data._datastore_kinds import datastore_of
    return {asset["name"]: datastore_of(workspace, asset)
            for asset in list_assets(workspace, "datastores", latest=True)}
