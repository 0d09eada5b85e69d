"""Registering datastores: the kinds that Runyard has beside the original's, and those of the original's it refuses."""
from azureml.data import _refused_kinds as instead
from azureml.exceptions import UserErrorException


def register(workspace, datastore_name, kind, settings, credentials, overwrite=False, create_if_not_exists=False,
             skip_validation=False):
    """Store a datastore and return it. Its credentials are kept encrypted by the service, and nowhere else."""
    from azureml.data._datastore_kinds import datastore_of
    if not isinstance(datastore_name, str) or not datastore_name:
        raise UserErrorException("datastore_name must be a text such as 'images', got %r." % (datastore_name,))
    return datastore_of(workspace, workspace._client.post(workspace._path("datastores"), {
        "name": datastore_name, "kind": kind, "settings": _given(settings), "credentials": _given(credentials),
        "overwrite": bool(overwrite), "create_if_not_exists": bool(create_if_not_exists),
        "skip_validation": bool(skip_validation)}))


class OwnRegistrations(object):
    """Kinds of datastores that the original does not have."""

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
        return register(workspace, datastore_name, "s3", {
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
        return register(workspace, datastore_name, "gcs", {
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
        return register(workspace, datastore_name, "folder", {"folder": path}, {}, overwrite, create_if_not_exists,
                        skip_validation)

    @staticmethod
    def register_web(workspace, datastore_name, address, overwrite=False, skip_validation=False):
        """Register a web address whose files are named by their path below it.

        >>> Datastore.register_web(ws, "mnist", "https://example.com/exdb/mnist")
        >>> Dataset.File.from_files((Datastore(ws, "mnist"), "train-images-idx3-ubyte.gz"))

        It is read-only and cannot be listed: globs and folders find nothing there.
        """
        return register(workspace, datastore_name, "web", {"address": address}, {}, overwrite, False, skip_validation)


class RefusedRegistrations(object):
    """Kinds that the original reaches inside its cloud. Each says what to do instead."""

    @staticmethod
    def register_azure_file_share(workspace, datastore_name, file_share_name, account_name, sas_token=None,
                                  account_key=None, protocol=None, endpoint=None, overwrite=False,
                                  create_if_not_exists=False, skip_validation=False):
        raise instead.refused("an Azure file share", datastore_name, instead.FILE_SHARE)

    @staticmethod
    def register_azure_data_lake(workspace, datastore_name, store_name, tenant_id=None, client_id=None,
                                 client_secret=None, resource_url=None, authority_url=None, subscription_id=None,
                                 resource_group=None, overwrite=False, grant_workspace_access=False):
        raise instead.refused("a data lake of the first generation", datastore_name, instead.DATA_LAKE)

    @staticmethod
    def register_azure_sql_database(workspace, datastore_name, server_name, database_name, tenant_id=None,
                                    client_id=None, client_secret=None, resource_url=None, authority_url=None,
                                    endpoint=None, overwrite=False, username=None, password=None, subscription_id=None,
                                    resource_group=None, grant_workspace_access=False, **kwargs):
        raise instead.refused("an SQL database", datastore_name, instead.DATABASE)

    @staticmethod
    def register_azure_postgre_sql(workspace, datastore_name, server_name, database_name, user_id, user_password,
                                   port_number=None, endpoint=None, overwrite=False, enforce_ssl=True, **kwargs):
        raise instead.refused("a PostgreSQL database", datastore_name, instead.DATABASE)

    @staticmethod
    def register_azure_my_sql(workspace, datastore_name, server_name, database_name, user_id, user_password,
                              port_number=None, endpoint=None, overwrite=False, **kwargs):
        raise instead.refused("a MySQL database", datastore_name, instead.DATABASE)

    @staticmethod
    def register_dbfs(workspace, datastore_name):
        raise instead.refused("a Databricks file system", datastore_name, instead.DBFS)

    @staticmethod
    def register_hdfs(workspace, datastore_name, protocol, namenode_address, hdfs_server_certificate, kerberos_realm,
                      kerberos_kdc_address, kerberos_principal, kerberos_keytab=None, kerberos_password=None,
                      overwrite=False):
        raise instead.refused("an HDFS", datastore_name, instead.HDFS)


def _given(values):
    return {name: value for name, value in values.items() if value is not None}


def _folder(prefix):
    return prefix.strip("/") or None if isinstance(prefix, str) else prefix
