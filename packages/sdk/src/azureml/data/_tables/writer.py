"""Writing DataFrames to datastores, as files of datasets."""

import os

from azureml.data._tables.libraries import has, pandas_for, parquet_for
from azureml.data._tables.steps import column_of
from azureml.data._tabular_format import DataType
from azureml.data.abstract_dataset import checked_columns
from azureml.data.dataset_factory import FileDatasetFactory, TabularDatasetFactory as Tabular, source_of
from azureml.exceptions import UserErrorException

_TYPES = {"b": DataType.to_bool, "i": DataType.to_long, "u": DataType.to_long, "f": DataType.to_float,
          "M": lambda: DataType.to_datetime(["%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S"])}
_FILE_NAME = "data"


def register_frame(frame, target, name, description=None, tags=None, show_progress=True, row_group_size=None,
                   make_target_path_unique=True):
    """Write the frame below the target and register it as the next version of `name`."""
    show = print if show_progress else (lambda text: None)
    show("Validating arguments.")
    pandas = pandas_for("register_pandas_dataframe")
    if not isinstance(frame, pandas.DataFrame):
        raise UserErrorException("dataframe must be a pandas DataFrame, got %s." % type(frame).__name__)
    if not isinstance(name, str) or not name.strip():
        raise UserErrorException("name must say what the dataset is called, got %r." % (name,))
    if row_group_size is not None and (not isinstance(row_group_size, int) or row_group_size < 1):
        raise UserErrorException("row_group_size must be a whole number above 0, got %r." % (row_group_size,))
    store, path = target_place(target)
    folder = "/".join(part for part in (path, unique_name() if make_target_path_unique else "") if part)
    show("Arguments validated.")
    show("Uploading file to %s" % (folder or store.name))
    with local_folder() as local:
        file = os.path.join(local, unique_name() + (".parquet" if has("pyarrow") else ".csv"))
        types = write_frame(frame, file, row_group_size)
        send_folder(store, local, folder)
    show("Successfully uploaded file to datastore.")
    made = dataset_of(store, "/".join(part for part in (folder, os.path.basename(file)) if part), types)
    show("Creating and registering a new dataset.")
    registered = made.register(store.workspace, name, description, tags, create_new_version=True)
    show("Successfully created and registered a new dataset.")
    return registered


def as_csv_files(dataset, separator):
    if not isinstance(separator, str) or len(separator) != 1:
        raise UserErrorException("separator must be one character, got %r." % (separator,))
    return _as_files(dataset, "part-0.csv", lambda frame, path: _write_csv(frame, path, separator))


def as_parquet_files(dataset):
    parquet_for("to_parquet_files")
    return _as_files(dataset, "part-0.parquet", lambda frame, path: write_frame(frame, path))


def target_place(target):
    """Datastore and path of a target: (datastore, 'path'), a DataPath, a DataReference or a datastore."""
    from azureml.core.datastore import Datastore
    from azureml.data.abstract_datastore import AbstractDatastore
    if isinstance(target, AbstractDatastore):
        return target, ""
    if isinstance(target, str) or target is None:
        raise UserErrorException("target must be a datastore, a (datastore, 'path') tuple or a DataPath, got %r." % (
            target,))
    source, workspace = source_of(target)
    return Datastore.get(workspace, source["datastore"]), source["path"]


def write_frame(frame, path, row_group_size=None):
    """Write without index, as Parquet or CSV by the path's ending; return the column types that reading needs."""
    names = [str(name) for name in frame.columns]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise UserErrorException("dataframe has more than one column %r." % doubled[0])
    if path.endswith(".csv"):
        _write_csv(frame, path, ",")
        kinds = [getattr(dtype, "kind", "O") for dtype in frame.dtypes]
        return {name: _TYPES.get(kind, DataType.to_string)() for name, kind in zip(names, kinds)}
    pyarrow, parquet = parquet_for("Writing Parquet files")
    try:
        table = pyarrow.Table.from_pandas(frame.rename(columns=str), preserve_index=False)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        raise UserErrorException("dataframe cannot be written as Parquet: %s. A column must hold values of one "
                                 "type." % error, inner_exception=error)
    parquet.write_table(table, path, row_group_size=row_group_size, flavor=None)
    return None


def dataset_of(store, path, types=None, partition_format=None):
    """Dataset of the written table: Parquet if no types are given."""
    if types is None:
        return Tabular.from_parquet_files((store, path), validate=False, partition_format=partition_format)
    return Tabular.from_delimited_files((store, path), validate=False, set_column_types=types, infer_column_types=False,
                                        partition_format=partition_format)


def send_folder(store, local, folder):
    """Upload all files below a local folder to the same paths below a folder of the datastore."""
    files = [os.path.join(where, name) for where, _, names in os.walk(local) for name in sorted(names)]
    store.upload_files(files, relative_root=local, target_path=folder, overwrite=True, show_progress=False)


def _write_csv(frame, path, separator):
    frame.to_csv(path, sep=separator, index=False, date_format="%Y-%m-%dT%H:%M:%S.%f", encoding="utf-8")


def _as_files(dataset, name, write):
    from azureml.data._service_files import workspace_of
    store = workspace_of(dataset).get_default_datastore()
    folder = "managed-dataset/" + unique_name()
    with local_folder() as local:
        write(dataset.to_pandas_dataframe(), os.path.join(local, name))
        send_folder(store, local, folder)
    return FileDatasetFactory.from_files((store, folder), validate=False)


def unique_name():
    """Unused name."""
    import uuid
    return str(uuid.uuid4())


def local_folder():
    """Context manager: a temporary local folder for files in transfer."""
    import tempfile
    return tempfile.TemporaryDirectory(prefix="runyard-table-")


def partitioned(dataset, partition_keys, target, name, show_progress, as_files):
    """Write the rows below the target, one file per combination of key values; return a dataset of the files."""
    keys = checked_columns(partition_keys, "partition_keys")
    store, path = target_place(target)
    frame = dataset.to_pandas_dataframe()
    for key in keys:
        if column_of(frame, key).isna().any():
            raise UserErrorException("The partition key %r is null in some rows; filter those out first." % key)
    if len(keys) == len(frame.columns):
        raise UserErrorException("partition_keys names every column; at least one must be left for the files.")
    folder = "/".join(part for part in (path, unique_name()) if part)
    ending = ".parquet" if has("pyarrow") else ".csv"
    with local_folder() as local:
        types, count = _write_parts(frame, keys, local, ending)
        if show_progress:
            print("Uploading %d files to %s" % (count, folder))
        send_folder(store, local, folder)
    form = "/".join(["{%s}" % key for key in keys] + [_FILE_NAME + ending])
    made = _file_dataset(store, folder, form) if as_files else dataset_of(store, folder, types, form)
    return made.register(store.workspace, name, create_new_version=True) if name else made


def _write_parts(frame, keys, local, ending):
    types, count = None, 0
    for values, rows in frame.groupby(keys if len(keys) > 1 else keys[0], sort=True):
        values = values if isinstance(values, tuple) else (values,)
        folder = os.path.join(local, *[_segment(value) for value in values])
        if os.path.exists(folder):
            raise UserErrorException("Two values of the partition keys %r look the same as text: %r." % (keys, values))
        os.makedirs(folder)
        types = write_frame(rows.drop(columns=keys), os.path.join(folder, _FILE_NAME + ending))
        count += 1
    return types, count


def _segment(value):
    """Value as a folder name."""
    text = str(value)
    if not text or text in (".", "..") or "/" in text or "\x00" in text or "\\" in text or len(text.encode()) > 255:
        raise UserErrorException("The value %r of a partition key cannot be the name of a folder; values are texts of "
                                 "at most 255 bytes without slashes." % (value,))
    return text


def _file_dataset(store, folder, form):
    return FileDatasetFactory.from_files((store, folder), validate=False, partition_format=form)
