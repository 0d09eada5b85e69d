from azureml._not_yet import not_yet
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
        """A dataset of the files at web addresses or on datastores; `*` and `**` are globs on datastores."""
        from azureml.data.file_dataset import FileDataset
        if partition_format is not None:
            raise not_yet("partition_format of from_files", 2)
        sources, workspace = sources_of(path)
        return FileDataset._of_sources(sources, workspace)

    @staticmethod
    def upload_directory(src_dir, target, pattern=None, overwrite=False, show_progress=True):
        """Upload a folder to (datastore, path) and make a dataset of it."""
        if pattern is not None:
            raise not_yet("pattern of upload_directory", 2)
        source, workspace = source_of(target)
        if workspace is None:
            raise UserErrorException("target must be a (datastore, 'relative/path') tuple or a DataPath, got %r." % (
                target,))
        from azureml.core.datastore import Datastore
        Datastore.get(workspace, source["datastore"]).upload(src_dir, source["path"], overwrite, show_progress)
        return FileDatasetFactory.from_files(target)
