import os

from azureml._not_yet import not_yet
from azureml.data.abstract_dataset import AbstractDataset  # noqa: F401
from azureml.data.dataset_consumption_config import checked_name
from azureml.data.dataset_type_definitions import PromoteHeadersBehavior


class MountOptions(object):
    def __init__(self, disable_metadata_cache=False):
        self.disable_metadata_cache = disable_metadata_cache


class UploadOptions(object):
    def __init__(self, overwrite=False, source_globs=None):
        self.overwrite = overwrite
        self.source_globs = source_globs


class RegistrationConfiguration(object):
    def __init__(self, name, description, tags):
        self.name = name
        self.description = description
        self.tags = tags


class TransformationMixin(object):
    def read_delimited_files(self, include_path=False, separator=",",
                             header=PromoteHeadersBehavior.ALL_FILES_HAVE_SAME_HEADERS, partition_format=None,
                             path_glob=None, set_column_types=None):
        raise not_yet("An output read as a table", 2)

    def read_parquet_files(self, include_path=False, partition_format=None, path_glob=None, set_column_types=None):
        raise not_yet("An output read as a table", 2)


class OutputDatasetConfig(object):
    """An output of a run that becomes data. It can be described; submitting a run with one comes with part 2."""

    def __init__(self, mode, name=None, **kwargs):
        self.mode = mode
        self.name = name or "output_" + os.urandom(4).hex()
        self._registration = None

    @property
    def name(self):
        return self._name

    @name.setter
    def name(self, name):
        self._name = checked_name(name)

    @property
    def arg_val(self):
        return "DatasetOutputConfig:%s" % self.name

    def register_on_complete(self, name, description=None, tags=None):
        self._registration = RegistrationConfiguration(name, description, tags)
        return self

    def as_input(self, name=None):
        raise not_yet("An output as the input of another run (as_input)", 2)

    def __str__(self):
        return self.arg_val

    def _bind(self, inputs):
        inputs.outputs[self.name] = self
        return self.arg_val

    def _to_definition(self):
        raise not_yet("%s %r of a run" % (type(self).__name__, self.name), 2)


class OutputFileDatasetConfig(OutputDatasetConfig, TransformationMixin):
    def __init__(self, name=None, destination=None, source=None, partition_format=None):
        super(OutputFileDatasetConfig, self).__init__("mount", name)
        self.destination = destination
        self.source = source
        self._upload_options = None
        self._mount_options = MountOptions()

    def as_mount(self, disable_metadata_cache=False):
        self.mode, self._mount_options = "mount", MountOptions(disable_metadata_cache)
        return self

    def as_upload(self, overwrite=False, source_globs=None):
        self.mode, self._upload_options = "upload", UploadOptions(overwrite, source_globs)
        return self


class HDFSOutputDatasetConfig(OutputDatasetConfig, TransformationMixin):
    def __init__(self, name=None, destination=None):
        super(HDFSOutputDatasetConfig, self).__init__("hdfs", name)
        self.destination = destination
        self.source = None


class LinkFileOutputDatasetConfig(OutputDatasetConfig):
    def __init__(self, name=None):
        super(LinkFileOutputDatasetConfig, self).__init__("link", name)


class LinkTabularOutputDatasetConfig(OutputDatasetConfig):
    def __init__(self, name=None):
        super(LinkTabularOutputDatasetConfig, self).__init__("link", name)


class OutputTabularDatasetConfig(OutputDatasetConfig):
    def __init__(self, **kwargs):
        raise not_yet("OutputTabularDatasetConfig", 2)
