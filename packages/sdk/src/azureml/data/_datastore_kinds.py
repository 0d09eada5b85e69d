from azureml.data._own_datastores import FolderDatastore, GoogleCloudStorageDatastore, S3Datastore, WebDatastore
from azureml.data.azure_data_lake_datastore import AzureDataLakeGen2Datastore
from azureml.data.azure_storage_datastore import AzureBlobDatastore, AzureFileDatastore
from azureml.exceptions import UserErrorException

_NO_CREDENTIALS = "None"


def datastore_of(workspace, asset):
    """The object of the class that a stored datastore's kind has."""
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
