"""Datastores of kinds that the original does not have."""
from azureml.data._stored_files import StoredFiles
from azureml.data.abstract_datastore import AbstractDatastore


class S3Datastore(StoredFiles, AbstractDatastore):
    """A bucket, or what lies below `prefix` in it, of Amazon S3 or of a server that speaks its protocol."""

    def __init__(self, workspace, name, bucket, prefix=None, region=None, endpoint=None):
        super(S3Datastore, self).__init__(workspace, name, "S3")
        self.bucket, self.prefix, self.region, self.endpoint = bucket, prefix, region, endpoint


class GoogleCloudStorageDatastore(StoredFiles, AbstractDatastore):
    """A bucket, or what lies below `prefix` in it, of Google Cloud Storage."""

    def __init__(self, workspace, name, bucket, prefix=None, endpoint=None):
        super(GoogleCloudStorageDatastore, self).__init__(workspace, name, "GCS")
        self.bucket, self.prefix, self.endpoint = bucket, prefix, endpoint


class FolderDatastore(StoredFiles, AbstractDatastore):
    """A folder that the service's machine sees: a disk, or a network share mounted there."""

    def __init__(self, workspace, name, folder):
        super(FolderDatastore, self).__init__(workspace, name, "Folder")
        self.folder = folder


class WebDatastore(StoredFiles, AbstractDatastore):
    """Files below a web address; read-only, and without listing: its paths are named one by one."""

    def __init__(self, workspace, name, address):
        super(WebDatastore, self).__init__(workspace, name, "Web")
        self.address = address
