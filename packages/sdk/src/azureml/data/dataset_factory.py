from azureml._unsupported import unsupported
from azureml.data._tabular_format import DataType, delimited_format, json_lines_format, parquet_format  # noqa: F401
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401
from azureml.data.azure_postgre_sql_datastore import AzurePostgreSqlDatastore  # noqa: F401
from azureml.data.data_reference import DataReference, checked_path  # noqa: F401
from azureml.data.datapath import DataPath  # noqa: F401
from azureml.data.dataset_type_definitions import PromoteHeadersBehavior  # noqa: F401
from azureml.exceptions import UserErrorException

_WANTED = ("path must be a web address, a (datastore, 'relative/path') tuple, a DataPath or a DataReference, or a "
           "list of these; got %r.%s")


class TabularDatasetFactory(object):
    """Makes tabular datasets: Dataset.Tabular.

    `path` is what Dataset.File.from_files takes. `validate` checks that the first file exists. `include_path` adds a
    column `Path`; `partition_format`, such as '/{country}/{day:yyyy/MM/dd}/data.csv', adds columns of path parts.
    """

    @staticmethod
    def from_delimited_files(path, validate=True, include_path=False, infer_column_types=True, set_column_types=None,
                             separator=",", header=True, partition_format=None, support_multi_line=False,
                             empty_as_string=False, encoding="utf8"):
        """Table of CSV and similar files.

        Types are inferred from the first 200 rows unless `set_column_types` names them: a column of 0 and 1 is boolean.
        Quoted line breaks are part of a value, whatever `support_multi_line` says.
        """
        return _tabular_dataset(path, validate, delimited_format(
            separator, header, encoding, infer_column_types, set_column_types, include_path, partition_format,
            support_multi_line, empty_as_string))

    @staticmethod
    def from_parquet_files(path, validate=True, include_path=False, set_column_types=None, partition_format=None):
        return _tabular_dataset(path, validate, parquet_format(set_column_types, include_path, partition_format))

    @staticmethod
    def from_json_lines_files(path, validate=True, include_path=False, set_column_types=None, partition_format=None,
                              invalid_lines="error", encoding="utf8"):
        """Table of files with one JSON object per line; `invalid_lines` 'drop' skips other lines."""
        return _tabular_dataset(path, validate, json_lines_format(
            invalid_lines, encoding, set_column_types, include_path, partition_format))

    @staticmethod
    def from_sql_query(query, validate=True, set_column_types=None, query_timeout=30):
        raise unsupported("from_sql_query", "Read the rows with your database's own driver and hand them over: "
                          "Dataset.Tabular.register_pandas_dataframe(pandas.read_sql(query, connection), ...).")

    @staticmethod
    def register_pandas_dataframe(dataframe, target, name, description=None, tags=None, show_progress=True,
                                  row_group_size=None, make_target_path_unique=True):
        """Write a DataFrame to (datastore, path) as Parquet and register it as the next version of `name`.

        Without pyarrow it is written as CSV with its column types. The index is not stored.
        """
        from azureml.data._tables.writer import register_frame
        return register_frame(dataframe, target, name, description, tags, show_progress, row_group_size,
                              make_target_path_unique)

    @staticmethod
    def register_dask_dataframe(dataframe, target, name, description=None, tags=None, show_progress=True):
        """Compute a dask dataframe, then as register_pandas_dataframe."""
        from azureml.data._tables.writer import register_frame
        if not hasattr(dataframe, "compute"):
            raise UserErrorException("dataframe must be a dask dataframe, got %s." % type(dataframe).__name__)
        return register_frame(dataframe.compute(), target, name, description, tags, show_progress)

    @staticmethod
    def register_spark_dataframe(dataframe, target, name, description=None, tags=None, show_progress=True):
        raise unsupported("register_spark_dataframe", "There is no Spark here; use register_pandas_dataframe with "
                          "dataframe.toPandas().")


def _tabular_dataset(path, validate, form):
    from azureml.data.tabular_dataset import TabularDataset
    sources, workspace = _sources_of(path)
    made = TabularDataset._of_format(sources, workspace, form, validate)
    if validate:
        check_data(made)
    return made


class FileDatasetFactory(object):
    """Makes file datasets: Dataset.File."""

    @staticmethod
    def from_files(path, validate=True, partition_format=None, is_file=False):
        """Dataset of files at URLs or on datastores.

        `path` is a URL, a (datastore, 'path') tuple, a DataPath or a DataReference, or a list of these; `*`, `?`, `[]`
        and `**` are globs on datastores. `validate` raises DatasetValidationError unless a file exists.
        `partition_format`, such as '/{country}/{day:yyyy/MM/dd}/*.csv', names path parts.
        """
        from azureml.data._partitions import PartitionFormat
        from azureml.data.file_dataset import FileDataset
        sources, workspace = _sources_of(path)
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
        """Upload a folder, or its files that match the glob `pattern`, to (datastore, path); return a dataset of it."""
        source, workspace = _datastore_target(target)
        from azureml.core.datastore import Datastore
        store = Datastore.get(workspace, source["datastore"])
        store._upload_folder(src_dir, source["path"], overwrite, show_progress, pattern)
        return FileDatasetFactory.from_files((store, source["path"]))


def check_data(dataset):
    """Raise DatasetValidationError, with the reason, unless the dataset has a reachable file."""
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


def _sources_of(path):
    """Stored forms of the items of `path`, and the workspace of their datastores (None for URLs)."""
    items = path if isinstance(path, list) else [path]
    if not items:
        raise UserErrorException(_WANTED % (path, ""))
    sources = [source_of(item) for item in items]
    if len({"url" in source for source, _ in sources}) > 1:
        raise UserErrorException("path must be all web addresses or all datastore paths, not both.")
    workspaces = [workspace for _, workspace in sources if workspace is not None]
    return [source for source, _ in sources], workspaces[0] if workspaces else None


def source_of(item):
    """Stored form of one item, and the workspace of its datastore."""
    if isinstance(item, str):
        return _web_source(item), None
    datastore, path = _place_of(item)
    if not isinstance(datastore, AbstractDatastore):
        raise UserErrorException(_WANTED % (item, ""))
    checked = checked_path("path", path)
    return {"datastore": datastore.name, "path": (checked or "").strip("/")}, datastore.workspace


def _place_of(item):
    if isinstance(item, DataReference):
        return item.datastore, item.path_on_datastore
    if isinstance(item, DataPath):
        return item._datastore, item.path_on_datastore
    return item if isinstance(item, tuple) and len(item) == 2 else (None, None)


def _web_source(text):
    from urllib.parse import urlsplit
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme.lower() in ("http", "https") and parts.netloc and not any(ord(char) <= 32 for char in text):
        return {"url": text}
    raise UserErrorException(_WANTED % (text, " A local file must be uploaded first, with datastore.upload_files."))
