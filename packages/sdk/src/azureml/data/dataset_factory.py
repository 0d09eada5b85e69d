from azureml.data._data_type import DataType  # noqa: F401
from azureml.data._sources import source_of, sources_of
from azureml.data._tabular_factory import TabularDatasetFactory  # noqa: F401
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401
from azureml.data.azure_postgre_sql_datastore import AzurePostgreSqlDatastore  # noqa: F401
from azureml.data.data_reference import DataReference  # noqa: F401
from azureml.data.datapath import DataPath  # noqa: F401
from azureml.data.dataset_type_definitions import PromoteHeadersBehavior  # noqa: F401
from azureml.exceptions import UserErrorException


class FileDatasetFactory(object):
    """Makes file datasets: Dataset.File."""

    @staticmethod
    def from_files(path, validate=True, partition_format=None, is_file=False):
        """A dataset of the files at web addresses or on datastores.

        `path` is an address, a (datastore, 'path') tuple, a DataPath or a DataReference, or a list of these; `*`, `?`,
        `[]` and `**` are globs on datastores. With `validate` its first file is looked for: DatasetValidationError
        where there is none. `partition_format`, such as '/{country}/{day:yyyy/MM/dd}/*.csv', names parts of paths.
        """
        from azureml.data._partitions import PartitionFormat
        from azureml.data.file_dataset import FileDataset
        sources, workspace = sources_of(path)
        made = FileDataset._of_sources(sources, workspace)
        made._validates = bool(validate)
        if partition_format is not None:
            PartitionFormat(partition_format)
            made._format = {"partition_format": partition_format}
        if validate:
            check_data(made)
        return made

    @staticmethod
    def upload_directory(src_dir, target, pattern=None, overwrite=False, show_progress=True):
        """Upload a folder, or its files that match the glob `pattern`, to (datastore, path); a dataset of it."""
        source, workspace = _datastore_target(target)
        from azureml.core.datastore import Datastore
        store = Datastore.get(workspace, source["datastore"])
        store._upload_folder(src_dir, source["path"], overwrite, show_progress, pattern)
        return FileDatasetFactory.from_files((store, source["path"]))


def check_data(dataset):
    """Raise DatasetValidationError, with the reason, unless the dataset has a file that can be reached."""
    from azureml.data._service_files import resolved
    from azureml.data.dataset_error_handling import DatasetValidationError
    from runyard_sdk.errors import DataFailed, InvalidArgument, NotFound
    try:
        found = resolved(dataset, limit=1)
    except (NotFound, DataFailed, InvalidArgument) as error:
        raise DatasetValidationError("path cannot be read: %s Pass validate=False where the data comes later." % (
            error.problem + (" " + error.hint if error.hint else "")), exception=error)
    if not found:
        raise DatasetValidationError("path names no file: %r. Check it, or pass validate=False where the data comes "
                                     "later." % (dataset,))


def _datastore_target(target):
    wanted = "target must be a (datastore, 'relative/path') tuple, a DataPath or a DataReference, got %r." % (target,)
    if isinstance(target, str):
        raise UserErrorException(wanted)
    source, workspace = source_of(target)
    if "*" in source["path"]:
        raise UserErrorException(wanted)
    return source, workspace
