"""Datastore classes by stored kind, and the classes of kinds that SDK v1 does not have."""

from azureml.data._datastore_files import StoredFiles
from azureml.data.abstract_datastore import AbstractDatastore
from azureml.data.azure_data_lake_datastore import AzureDataLakeGen2Datastore
from azureml.data.azure_storage_datastore import AzureBlobDatastore, AzureFileDatastore
from azureml.exceptions import UserErrorException

_NO_CREDENTIALS = "None"


class S3Datastore(StoredFiles, AbstractDatastore):
    """An Amazon S3 (or compatible) bucket, or its part below `prefix`."""

    def __init__(self, workspace, name, bucket, prefix=None, region=None, endpoint=None):
        super(S3Datastore, self).__init__(workspace, name, "S3")
        self.bucket, self.prefix, self.region, self.endpoint = bucket, prefix, region, endpoint


class GoogleCloudStorageDatastore(StoredFiles, AbstractDatastore):
    """A Google Cloud Storage bucket, or its part below `prefix`."""

    def __init__(self, workspace, name, bucket, prefix=None, endpoint=None):
        super(GoogleCloudStorageDatastore, self).__init__(workspace, name, "GCS")
        self.bucket, self.prefix, self.endpoint = bucket, prefix, endpoint


class FolderDatastore(StoredFiles, AbstractDatastore):
    """A folder on the service's machine: a disk, or a mounted network share."""

    def __init__(self, workspace, name, folder):
        super(FolderDatastore, self).__init__(workspace, name, "Folder")
        self.folder = folder


class WebDatastore(StoredFiles, AbstractDatastore):
    """Files below a URL; read-only and without listing: paths are named one by one."""

    def __init__(self, workspace, name, address):
        super(WebDatastore, self).__init__(workspace, name, "Web")
        self.address = address


def datastore_of(workspace, asset):
    """Object of the class for a stored datastore's kind."""
    body = asset["body"]
    kind = body.get("kind", "workspace")
    if kind not in _MAKERS:
        raise UserErrorException("The datastore %r is of kind %r, which this SDK does not know. Upgrade it: "
                                 "pip install --upgrade runyard-sdk." % (asset["name"], kind))
    made = _MAKERS[kind](workspace, asset["name"], body.get("settings") or {}, body.get("v1_type"))
    credential_type = body.get("credential_type") or _NO_CREDENTIALS
    made._has_stored_credentials = credential_type != _NO_CREDENTIALS
    if hasattr(made, "credential_type"):
        made.credential_type = credential_type
    return made


def _of_workspace(workspace, name, settings, v1_type):
    made = AzureFileDatastore if v1_type == "AzureFile" else AzureBlobDatastore
    return made(workspace, name, name, workspace.name)


def _azure_blob(workspace, name, settings, v1_type):
    return AzureBlobDatastore(workspace, name, settings.get("container_name"), settings.get("account_name"),
                              **_reached(settings))


def _azure_data_lake_gen2(workspace, name, settings, v1_type):
    return AzureDataLakeGen2Datastore(
        workspace, name, settings.get("filesystem"), settings.get("account_name"), settings.get("tenant_id"),
        settings.get("client_id"), authority_url=settings.get("authority_url"), **_reached(settings))


def _reached(settings):
    return {"protocol": settings.get("protocol") or "https", "endpoint": settings.get("endpoint") or "core.windows.net"}


_MAKERS = {
    "workspace": _of_workspace,
    "azure_blob": _azure_blob,
    "azure_data_lake_gen2": _azure_data_lake_gen2,
    "s3": lambda workspace, name, settings, v1_type: S3Datastore(
        workspace, name, settings.get("bucket"), settings.get("prefix"), settings.get("region"),
        settings.get("endpoint")),
    "gcs": lambda workspace, name, settings, v1_type: GoogleCloudStorageDatastore(
        workspace, name, settings.get("bucket"), settings.get("prefix"), settings.get("endpoint")),
    "folder": lambda workspace, name, settings, v1_type: FolderDatastore(workspace, name, settings.get("folder")),
    "web": lambda workspace, name, settings, v1_type: WebDatastore(workspace, name, settings.get("address")),
}
