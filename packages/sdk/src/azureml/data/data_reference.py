import os
import re

from azureml.exceptions import UserErrorException

_NAME = r"^[A-Za-z0-9_-]+\Z"
_MODES = ("mount", "download", "upload")


class DataReference(object):
    """A folder or file of a datastore, and how a run accesses it. Its text is a placeholder of the path."""

    def __init__(self, datastore, data_reference_name=None, path_on_datastore=None, mode="mount", path_on_compute=None,
                 overwrite=False):
        if mode not in _MODES:
            raise UserErrorException("mode must be one of %s, got %r." % (", ".join(map(repr, _MODES)), mode))
        path_on_datastore = checked_path("path_on_datastore", path_on_datastore)
        self.datastore = datastore
        self.data_reference_name = data_reference_name or self._default_name(path_on_datastore)
        if not re.match(_NAME, self.data_reference_name):
            raise UserErrorException("data_reference_name takes letters, digits, '_' and '-', got %r." % (
                self.data_reference_name,))
        self.path_on_datastore = path_on_datastore
        self.mode = mode
        self.path_on_compute = path_on_compute
        self.overwrite = overwrite

    def path(self, path=None, data_reference_name=None):
        """Reference to a path below this one."""
        joined = "/".join(part.strip("/") for part in (self.path_on_datastore, path) if part and part.strip("/"))
        return DataReference(self.datastore, data_reference_name, joined or None, self.mode, self.path_on_compute,
                             self.overwrite)

    def as_mount(self):
        return self._with("mount", None, False)

    def as_download(self, path_on_compute=None, overwrite=False):
        return self._with("download", path_on_compute, overwrite)

    def as_upload(self, path_on_compute=None, overwrite=False):
        return self._with("upload", path_on_compute, overwrite)

    @staticmethod
    def create(data_reference_name=None, datapath=None, datapath_compute_binding=None):
        return datapath.create_data_reference(data_reference_name, datapath_compute_binding)

    def to_config(self):
        from azureml.core.runconfig import DataReferenceConfiguration
        return DataReferenceConfiguration(self.datastore.name, self.mode, self.path_on_datastore, self.path_on_compute,
                                          self.overwrite)

    def __str__(self):
        return "$AZUREML_DATAREFERENCE_%s" % self.data_reference_name

    def __repr__(self):
        return str(self)

    def _bind(self, inputs):
        inputs.references[self.data_reference_name] = self
        return str(self)

    def _to_definition(self):
        return {"dataStoreName": self.datastore.name, "mode": self.mode.capitalize(),
                "pathOnDataStore": self.path_on_datastore, "pathOnCompute": self.path_on_compute,
                "overwrite": self.overwrite}

    def _default_name(self, path_on_datastore):
        if not path_on_datastore:
            return self.datastore.name
        import uuid
        return uuid.uuid4().hex

    def _with(self, mode, path_on_compute, overwrite):
        return DataReference(self.datastore, self.data_reference_name, self.path_on_datastore, mode, path_on_compute,
                             overwrite)


def checked_path(argument, path):
    """Path below a datastore's root, with forward slashes. Raises UserErrorException for one that leaves it."""
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)):
        raise UserErrorException("%s must be one relative path, got %r." % (argument, path))
    text = os.fspath(path).replace("\\", "/")
    if "\x00" in text or ".." in text.split("/"):
        raise UserErrorException("%s must stay below the datastore's root, got %r." % (argument, path))
    return text
