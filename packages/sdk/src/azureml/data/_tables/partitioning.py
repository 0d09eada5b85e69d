import os

from azureml.data._selection import checked_columns
from azureml.data._tables.conditions import column_of
from azureml.data._tables.libraries import has
from azureml.data._tables.writing import dataset_of, local_folder, send_folder, target_place, unique_name, write_frame
from azureml.exceptions import UserErrorException

_FILE_NAME = "data"


def partitioned(dataset, partition_keys, target, name, show_progress, as_files):
    """Write the rows below the target, one file for each combination of the keys' values; the dataset of the files."""
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
    """A value as the name of a folder."""
    text = str(value)
    if not text or text in (".", "..") or "/" in text or "\x00" in text or "\\" in text or len(text.encode()) > 255:
        raise UserErrorException("The value %r of a partition key cannot be the name of a folder; values are texts of "
                                 "at most 255 bytes without slashes." % (value,))
    return text


def _file_dataset(store, folder, form):
    from azureml.data.dataset_factory import FileDatasetFactory
    return FileDatasetFactory.from_files((store, folder), validate=False, partition_format=form)
