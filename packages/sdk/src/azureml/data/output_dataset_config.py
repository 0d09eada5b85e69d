import os

from azureml._unsupported import unsupported
from azureml.data._unsupported import HDFS
from azureml.data.abstract_dataset import AbstractDataset  # noqa: F401
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig, checked_name
from azureml.data.dataset_type_definitions import PromoteHeadersBehavior
from azureml.exceptions import UserErrorException


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


class OutputDatasetConfig(object):
    """An output of a run that becomes a dataset. As a script argument it is the path to write to."""

    def __init__(self, mode, name=None, **kwargs):
        self.mode = mode
        self.name = name or "output_" + os.urandom(4).hex()
        self._registration = None
        self._format = None

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
        """Register what the run wrote as a version of dataset `name` when the run completes."""
        if not isinstance(name, str) or not name.strip():
            raise UserErrorException("name must say what the dataset is called, got %r." % (name,))
        self._registration = RegistrationConfiguration(name, description, tags)
        return self

    def as_input(self, name=None):
        """What this output wrote, as input of a later run."""
        raise unsupported("as_input() of %s" % type(self).__name__,
                          "Name it with register_on_complete('name') and give the next run "
                          "Dataset.get_by_name(workspace, 'name').as_named_input(...).")

    def __str__(self):
        return self.arg_val

    def _bind(self, inputs):
        inputs.add_output(self.name, self)
        return self.arg_val

    def _to_definition(self, workspace):
        return {"outputLocation": None, "mechanism": self.mode.capitalize(), "pathOnCompute": None,
                "environmentVariableName": self.name,
                "additionalOptions": {"registrationOptions": self._registration_object(), "uploadOptions": None}}

    def _registration_object(self):
        wanted = self._registration
        if wanted is None:
            return None
        return {"name": wanted.name, "description": wanted.description,
                "tags": {str(key): str(value) for key, value in (wanted.tags or {}).items()},
                "datasetRegistrationOptions": {"additionalTransformation": self._format}}


class TransformationMixin(object):
    """Outputs whose files can be read as a table."""

    def read_delimited_files(self, include_path=False, separator=",",
                             header=PromoteHeadersBehavior.ALL_FILES_HAVE_SAME_HEADERS, partition_format=None,
                             path_glob=None, set_column_types=None):
        """This output, with a dataset that reads its CSV files as a table."""
        from azureml.data._tabular_format import delimited_format
        return OutputTabularDatasetConfig(output=self, format=delimited_format(
            separator=separator, header=header, set_column_types=set_column_types, include_path=include_path,
            partition_format=partition_format, path_glob=path_glob))

    def read_parquet_files(self, include_path=False, partition_format=None, path_glob=None, set_column_types=None):
        """This output, with a dataset that reads its Parquet files as a table."""
        from azureml.data._tabular_format import parquet_format
        return OutputTabularDatasetConfig(output=self, format=parquet_format(
            set_column_types=set_column_types, include_path=include_path, partition_format=partition_format,
            path_glob=path_glob))


class OutputFileDatasetConfig(OutputDatasetConfig, TransformationMixin):
    """A folder of a datastore that the script writes to.

    `destination` is (datastore, 'path'), where {run-id} and {output-name} are filled in; by default
    'dataset/{run-id}/{output-name}' on the default datastore. `source` is the path on the compute to write to. With
    mount, the default, files are uploaded when closed; with upload, when the script ends.
    """

    def __init__(self, name=None, destination=None, source=None, partition_format=None):
        super(OutputFileDatasetConfig, self).__init__("mount", name)
        if partition_format is not None:
            raise unsupported("partition_format of an output", "Give it to Dataset.File.from_files when you read the "
                              "files.")
        self.destination = destination
        self._place = _checked_destination(destination)
        self.source = source
        self._upload_options = None
        self._mount_options = MountOptions()

    def as_mount(self, disable_metadata_cache=False):
        """Upload each file when it is closed."""
        self.mode, self._mount_options = "mount", MountOptions(disable_metadata_cache)
        return self

    def as_upload(self, overwrite=False, source_globs=None):
        """Upload the files, or those that match source_globs, when the script ends."""
        self.mode, self._upload_options = "upload", UploadOptions(overwrite, _checked_globs(source_globs))
        return self

    def as_input(self, name=None):
        """What this output wrote, as mounted input of a later run; for destinations without {run-id}."""
        return DatasetConsumptionConfig(name or "input_" + os.urandom(4).hex(), _WrittenBefore(self), "mount")

    def _to_definition(self, workspace):
        made = super(OutputFileDatasetConfig, self)._to_definition(workspace)
        datastore, path = self._place
        options = self._upload_options if self.mode == "upload" else None
        made.update(outputLocation={"dataPath": {"datastoreName": datastore, "relativePath": path}},
                    pathOnCompute=self.source)
        made["additionalOptions"]["uploadOptions"] = options and {
            "overwrite": bool(options.overwrite), "sourceGlobs": options.source_globs or []}
        return made


class OutputTabularDatasetConfig(OutputDatasetConfig):
    """An output whose files are read as a table; made by read_delimited_files or read_parquet_files."""

    def __init__(self, **kwargs):
        output = kwargs.get("output")
        if not isinstance(output, OutputDatasetConfig):
            raise UserErrorException("An OutputTabularDatasetConfig is made with OutputFileDatasetConfig(...)."
                                     "read_delimited_files() or .read_parquet_files().")
        super(OutputTabularDatasetConfig, self).__init__(output.mode, output.name)
        self._output, self._registration, self._format = output, output._registration, kwargs["format"]

    def as_mount(self):
        self._output.as_mount()
        self.mode = "mount"
        return self

    def as_upload(self, overwrite=False, source_globs=None):
        self._output.as_upload(overwrite, source_globs)
        self.mode = "upload"
        return self

    def as_input(self, name=None):
        """What this output wrote, as a table that a later run reads directly."""
        return DatasetConsumptionConfig(name or "input_" + os.urandom(4).hex(),
                                        _WrittenBefore(self._output, self._format), "direct")

    def drop_columns(self, columns):
        raise _of_the_dataset("drop_columns")

    def keep_columns(self, columns):
        raise _of_the_dataset("keep_columns")

    def random_split(self, percentage, seed=None):
        raise _of_the_dataset("random_split")

    def _to_definition(self, workspace):
        made = self._output._to_definition(workspace)
        made["environmentVariableName"] = self.name
        made["additionalOptions"]["registrationOptions"] = self._registration_object()
        return made


class HDFSOutputDatasetConfig(OutputDatasetConfig, TransformationMixin):
    """Can be created; a run that has one is refused, because Runyard has no HDFS."""

    def __init__(self, name=None, destination=None):
        super(HDFSOutputDatasetConfig, self).__init__("hdfs", name)
        self.destination = destination
        self.source = None

    def _bind(self, inputs):
        raise unsupported("The HDFS output %r" % self.name, "Use OutputFileDatasetConfig. For data of an HDFS: " + HDFS)


class LinkFileOutputDatasetConfig(OutputDatasetConfig):
    """An output for which the script names a FileDataset: run.output_datasets['name'].link(dataset)."""

    def __init__(self, name=None):
        super(LinkFileOutputDatasetConfig, self).__init__("link", name)


class LinkTabularOutputDatasetConfig(OutputDatasetConfig):
    """An output for which the script names a TabularDataset: run.output_datasets['name'].link(dataset)."""

    def __init__(self, name=None):
        super(LinkTabularOutputDatasetConfig, self).__init__("link", name)


class _WrittenBefore(object):
    """Dataset that an output leaves at its destination."""

    def __init__(self, output, format=None):
        self._output, self._format = output, format
        self._can_be_files = format is None

    def _saved(self, workspace):
        datastore, path = self._output._place
        if path is None or "{run-id}" in path:
            raise UserErrorException("as_input() of output %r: where it lies depends on the run that wrote it. Give the "
                                     "output a destination without {run-id}, or name it with register_on_complete('n') "
                                     "and use Dataset.get_by_name(workspace, 'n')." % self._output.name)
        made = object.__new__(AbstractDataset._classes["file" if self._can_be_files else "tabular"])
        AbstractDataset.__init__(made)
        made._format = self._format
        made._sources = [{"datastore": datastore, "path": path.replace("{output-name}", self._output.name)}]
        return made._saved(workspace)


def _checked_destination(destination):
    """Name of a datastore and a path on it, both None where the service chooses."""
    from azureml.data.dataset_factory import source_of
    if destination is None:
        return None, None
    wanted = "destination must be a (datastore, 'relative/path') tuple, got %r." % (destination,)
    if isinstance(destination, (str, list)):
        raise UserErrorException(wanted)
    try:
        source, _ = source_of(destination)
    except UserErrorException as error:
        raise UserErrorException(wanted, inner_exception=error)
    return source["datastore"], source["path"] or None


def _checked_globs(source_globs):
    globs = [source_globs] if isinstance(source_globs, str) else source_globs
    if globs is not None and not (isinstance(globs, (list, tuple)) and all(isinstance(one, str) for one in globs)):
        raise UserErrorException("source_globs must be a list of globs such as ['**/*.csv'], got %r." % (
            source_globs,))
    return globs and list(globs)


def _of_the_dataset(what):
    return unsupported("%s() of an output" % what, "Register the output with register_on_complete('name') and call it "
                       "on Dataset.get_by_name(workspace, 'name').")
