from azureml._not_yet import not_yet
from azureml.data.abstract_datastore import AbstractDatastore
from azureml.data.azure_postgre_sql_datastore import AzurePostgreSqlDatastore  # noqa: F401
from azureml.data.data_reference import DataReference, checked_path
from azureml.data.datapath import DataPath
from azureml.data.dataset_type_definitions import PromoteHeadersBehavior  # noqa: F401
from azureml.exceptions import UserErrorException

_WANTED = ("path must be a web address, a (datastore, 'relative/path') tuple, a DataPath or a DataReference, or a "
           "list of these; got %r.%s")


class FileDatasetFactory(object):
    """Makes file datasets: Dataset.File."""

    @staticmethod
    def from_files(path, validate=True, partition_format=None, is_file=False):
        """A dataset of the files at web addresses or on datastores; `*` and `**` are globs on datastores."""
        from azureml.data.file_dataset import FileDataset
        if partition_format is not None:
            raise not_yet("partition_format of from_files", 2)
        items = path if isinstance(path, list) else [path]
        if not items:
            raise UserErrorException(_WANTED % (path, ""))
        sources = [_source(item) for item in items]
        if len({"url" in source for source, _ in sources}) > 1:
            raise UserErrorException("path must be all web addresses or all datastore paths, not both.")
        workspaces = [workspace for _, workspace in sources if workspace is not None]
        return FileDataset._of_sources([source for source, _ in sources], workspaces[0] if workspaces else None)

    @staticmethod
    def upload_directory(src_dir, target, pattern=None, overwrite=False, show_progress=True):
        """Upload a folder to (datastore, path) and make a dataset of it."""
        if pattern is not None:
            raise not_yet("pattern of upload_directory", 2)
        source, workspace = _source(target)
        if workspace is None:
            raise UserErrorException("target must be a (datastore, 'relative/path') tuple or a DataPath, got %r." % (
                target,))
        from azureml.core.datastore import Datastore
        Datastore.get(workspace, source["datastore"]).upload(src_dir, source["path"], overwrite, show_progress)
        return FileDatasetFactory.from_files(target)


def _tabular(name):
    def refuse(*args, **kwargs):
        raise not_yet("Dataset.Tabular.%s" % name, 2)
    refuse.__name__ = name
    return staticmethod(refuse)


class TabularDatasetFactory(object):
    """Tabular datasets come with part 2; each method says so."""

    from_delimited_files = _tabular("from_delimited_files")
    from_json_lines_files = _tabular("from_json_lines_files")
    from_parquet_files = _tabular("from_parquet_files")
    from_sql_query = _tabular("from_sql_query")
    register_dask_dataframe = _tabular("register_dask_dataframe")
    register_pandas_dataframe = _tabular("register_pandas_dataframe")
    register_spark_dataframe = _tabular("register_spark_dataframe")


class DataType(object):
    """Column types of tabular datasets, which come with part 2."""

    @staticmethod
    def to_bool():
        raise not_yet("DataType.to_bool", 2)

    @staticmethod
    def to_datetime(formats=None):
        raise not_yet("DataType.to_datetime", 2)

    @staticmethod
    def to_float(decimal_mark="."):
        raise not_yet("DataType.to_float", 2)

    @staticmethod
    def to_long():
        raise not_yet("DataType.to_long", 2)

    @staticmethod
    def to_stream(workspace, escaped=False):
        raise not_yet("DataType.to_stream", 2)

    @staticmethod
    def to_string():
        raise not_yet("DataType.to_string", 2)


def _source(item):
    """The stored form of one item, and the workspace of its datastore."""
    if isinstance(item, str):
        return _web_source(item), None
    if isinstance(item, DataReference):
        return _stored(item.datastore, item.path_on_datastore)
    if isinstance(item, DataPath):
        return _stored(item._datastore, item.path_on_datastore)
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], AbstractDatastore):
        return _stored(item[0], item[1])
    raise UserErrorException(_WANTED % (item, ""))


def _stored(datastore, path):
    checked = checked_path("path", path)
    return {"datastore": datastore.name, "path": (checked or "").strip("/")}, datastore.workspace


def _web_source(text):
    from urllib.parse import urlsplit
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme.lower() in ("http", "https") and parts.netloc and not any(ord(char) <= 32 for char in text):
        return {"url": text}
    raise UserErrorException(_WANTED % (text, " A local file must be uploaded first, with datastore.upload_files."))
