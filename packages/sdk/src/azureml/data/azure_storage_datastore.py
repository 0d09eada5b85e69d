import os

from azureml.data.abstract_datastore import AbstractDatastore
from azureml.data.data_reference import DataReference, checked_path
from azureml.exceptions import UserErrorException

_BATCH = 256


class AbstractAzureStorageDatastore(AbstractDatastore):
    """A datastore that holds files. Here it is a plain folder tree of the workspace, kept by the service."""

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
        return bool(self.sas_token)

    def path(self, path=None, data_reference_name=None):
        return DataReference(self, data_reference_name, path)

    def as_mount(self):
        return DataReference(self).as_mount()

    def as_download(self, path_on_compute=None):
        return DataReference(self).as_download(path_on_compute)

    def as_upload(self, path_on_compute=None):
        return DataReference(self).as_upload(path_on_compute)

    def upload(self, src_dir, target_path=None, overwrite=False, show_progress=True):
        """Send every file below src_dir; files that are there are left alone unless overwrite. A DataReference."""
        if not os.path.isdir(src_dir):
            raise UserErrorException("src_dir %r is not a folder." % str(src_dir))
        return self._send(_files_below(src_dir), src_dir, target_path, overwrite, show_progress)

    def upload_files(self, files, relative_root=None, target_path=None, overwrite=False, show_progress=True):
        """Send these files, placed by their path below relative_root (by default their common folder)."""
        if isinstance(files, str) or not files:
            raise UserErrorException("files must be a list of paths with at least one path, got %r." % (files,))
        missing = [path for path in files if not os.path.isfile(path)]
        if missing:
            raise UserErrorException("files names %r, which is not a file." % (missing[0],))
        root = relative_root or os.path.dirname(os.path.commonprefix([os.path.abspath(path) for path in files]))
        return self._send(list(files), root, target_path, overwrite, show_progress)

    def download(self, target_path, prefix=None, overwrite=False, show_progress=True):
        """Fetch files, below `prefix` if given, into target_path under their full path here; how many were fetched."""
        from runyard_sdk.client import quoted_path
        names = self._file_names(prefix)
        say = print if show_progress else (lambda text: None)
        if not names and show_progress:
            say("There is nothing to download%s." % (" below %r" % prefix if prefix else ""))
        fetched = 0
        for name in names:
            target = os.path.join(target_path, *name.split("/"))
            if os.path.exists(target) and not overwrite:
                say("Target already exists. Skipping download for %s" % target)
                continue
            say("Downloading %s" % name)
            self.workspace._client.download(self._route() + "/" + quoted_path(name), target)
            fetched += 1
            say("Downloaded %s, %d files out of an estimated total of %d" % (name, fetched, len(names)))
        return fetched

    def _bind(self, inputs):
        return DataReference(self)._bind(inputs)

    def _send(self, files, root, target_path, overwrite, show_progress):
        target_path = checked_path("target_path", target_path)
        placed = [(path, _placed(path, root, target_path)) for path in files]
        say = print if show_progress else (lambda text: None)
        say("Uploading an estimated of %d files" % len(placed))
        present = set() if overwrite else set(self._file_names(target_path))
        sent = 0
        for start in range(0, len(placed), _BATCH):
            for path, name in placed[start:start + _BATCH]:
                if name in present:
                    say("Target already exists. Skipping upload for %s" % name)
            batch = [(path, name) for path, name in placed[start:start + _BATCH] if name not in present]
            for path, _ in batch:
                say("Uploading %s" % path)
            self._store(batch, overwrite)
            for path, _ in batch:
                sent += 1
                say("Uploaded %s, %d files out of an estimated total of %d" % (path, sent, len(placed)))
        say("Uploaded %d files" % sent)
        return DataReference(self, path_on_datastore=target_path)

    def _store(self, batch, overwrite):
        from runyard_sdk.client import quoted_path
        client = self.workspace._client
        if batch and client.shares_files:
            items = [[os.path.abspath(path), name] for path, name in batch]
            client.post(self.workspace._path("datastores", self.name, "adopt"),
                        {"items": items, "overwrite": overwrite})
            return
        for path, name in batch:
            client.upload(self._route() + "/" + quoted_path(name), path, overwrite=overwrite)

    def _file_names(self, prefix=None):
        """Paths of the files below `prefix`, or of that one file, sorted."""
        prefix = (prefix or "").strip("/")
        listed = self.workspace._client.get(self._route(), prefix=prefix or None)["files"]
        names = sorted(one["path"] for one in listed)
        return [name for name in names if not prefix or name == prefix or name.startswith(prefix + "/")]

    def _route(self):
        return self.workspace._path("datastores", self.name, "files")


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


def _files_below(folder):
    return [os.path.join(where, name) for where, folders, names in os.walk(folder, followlinks=True)
            for name in sorted(names) if os.path.isfile(os.path.join(where, name))]


def _placed(path, root, target_path):
    relative = os.path.relpath(os.path.abspath(path), os.path.abspath(root)).replace(os.sep, "/")
    if relative.startswith("../"):
        raise UserErrorException("%r lies outside of relative_root %r." % (path, str(root)))
    return "/".join(part for part in ((target_path or "").strip("/"), relative) if part)
