"""A tabular dataset read into a frame: its files are brought, read and left again; then come its steps."""
from azureml.data._partitions import PartitionFormat
from azureml.data._service_files import fetch_all, resolution
from azureml.data._tables.delimited import DelimitedReader
from azureml.data._tables.json_lines import JsonLinesReader
from azureml.data._tables.libraries import pandas_for
from azureml.data._tables.parquet import ParquetReader
from azureml.data._tables.steps import applied, columns_needed, columns_of, rows_needed
from azureml.data.dataset_error_handling import DatasetExecutionError
from azureml.exceptions import UserErrorException

_READERS = {"delimited": DelimitedReader, "json_lines": JsonLinesReader, "parquet": ParquetReader}


def frame_of(dataset, problems):
    """All rows of the dataset as a DataFrame with a fresh index; what became null is in `problems`."""
    import tempfile
    pandas = pandas_for("Reading a tabular dataset")
    form, steps = dataset._format, dataset._steps
    files = _without_needless(pandas, _files(dataset), steps)
    reader = _READERS[form["kind"]](form, problems, columns_needed(steps))
    with tempfile.TemporaryDirectory(prefix="runyard-table-") as folder:
        frame = _joined(pandas, list(_frames(dataset, files, reader, folder, rows_needed(steps))))
    frame = applied(reader.settled(frame), steps)
    return frame.reset_index(drop=True)


def _files(dataset):
    """(file, columns that its place gives) of each file, as the definition asks for them."""
    form, found = dataset._format, resolution(dataset._read_through())
    if found.get("changes"):
        import warnings
        warnings.warn("This version of the dataset was made of other data: " + " ".join(found["changes"]), stacklevel=4)
    partitions = PartitionFormat(form["partition_format"])
    made = []
    for file in found["files"]:
        if form["path_glob"] is not None and not _matches(file["path"], form["path_glob"]):
            continue
        values = partitions.values_of(file.get("key") or file["path"])
        if values is None:
            raise UserErrorException("partition_format %r does not fit the file %r." % (
                form["partition_format"], file.get("key") or file["path"]))
        columns = [("Path", _address(file))] if form["include_path"] else []
        made.append((file, columns + [(key, values[key]) for key in partitions.keys]))
    if not made:
        raise UserErrorException("The dataset has no files: %r." % (dataset,))
    return made


def _without_needless(pandas, files, steps):
    """Without files of which the first filters keep no row, as their paths alone tell; one stays for its columns."""
    places = pandas.DataFrame([dict(columns, **{_NUMBER: at}) for at, (_, columns) in enumerate(files)])
    for step in steps:
        if step[0] in ("skip", "take", "sample"):  # which rows these choose hangs on all rows before
            break
        if columns_of(step) and columns_of(step) <= set(places.columns):
            places = applied(places, [step])
    return [files[at] for at in places[_NUMBER]] or files[:1]


def _frames(dataset, files, reader, folder, rows):
    """The frame of each file in turn; with a number of rows, files are brought one by one until there are enough."""
    origin = dataset._read_through()
    paths = fetch_all(origin, [file for file, _ in files], folder) if rows is None else None
    for at, (file, columns) in enumerate(files):
        path = paths[at] if paths else fetch_all(origin, [file], folder)[0]
        try:
            frame = reader.read(path, rows)
        except DatasetExecutionError as error:
            raise DatasetExecutionError("%s: %s" % (file["path"], error.message), error.inner_exception)
        if frame is None:
            continue
        for place, (name, value) in enumerate(columns):
            if name in frame.columns:
                raise UserErrorException("The files have a column %r themselves, which include_path or "
                                         "partition_format would make." % name)
            frame.insert(place, name, value)
        yield frame
        if rows is not None:
            rows -= len(frame)
            if rows <= 0:
                return


def _joined(pandas, frames):
    with_rows = [frame for frame in frames if len(frame)] or frames[:1]
    if not with_rows:
        return pandas.DataFrame()
    return with_rows[0] if len(with_rows) == 1 else pandas.concat(with_rows, ignore_index=True, sort=False)


def _matches(path, glob):
    from fnmatch import fnmatchcase
    return fnmatchcase(path, glob) or fnmatchcase(path.rpartition("/")[2], glob)


def _address(file):
    """A file's web address, or its datastore and path as one text."""
    if not file.get("store"):
        return file.get("key") or file["path"]
    return "AmlDatastore://%s/%s" % (file["store"], file["key"])


_NUMBER = "\0number"
