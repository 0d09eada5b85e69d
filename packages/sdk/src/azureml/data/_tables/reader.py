"""Reading a tabular dataset into a DataFrame: stage its files, read them, apply its steps."""

from azureml.data._partitions import PartitionFormat
from azureml.data._service_files import fetch_all, resolution
from azureml.data._tables.formats import DelimitedReader, JsonLinesReader, ParquetReader
from azureml.data._tables.libraries import pandas_for
from azureml.data._tables.steps import applied, columns_needed, columns_of, rows_needed
from azureml.data.dataset_error_handling import DatasetExecutionError
from azureml.exceptions import UserErrorException

_READERS = {"delimited": DelimitedReader, "json_lines": JsonLinesReader, "parquet": ParquetReader}
_CHOICES = {"on_error": ("null", "fail"), "out_of_range_datetime": ("null", "error")}


def frame_of(dataset, problems):
    """All rows of the dataset as a DataFrame with a fresh index; values that became null are in `problems`."""
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
    """(file, columns from its path) of each file, as the definition requests."""
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
    """Drop files whose paths show that the first filters keep no row; one stays for its columns."""
    places = pandas.DataFrame([dict(columns, **{_NUMBER: at}) for at, (_, columns) in enumerate(files)])
    for step in steps:
        if step[0] in ("skip", "take", "sample"):  # the rows that these keep depend on all rows before
            break
        if columns_of(step) and columns_of(step) <= set(places.columns):
            places = applied(places, [step])
    return [files[at] for at in places[_NUMBER]] or files[:1]


def _frames(dataset, files, reader, folder, rows):
    """Frame of each file in turn; with a row limit, files are staged one by one until there are enough."""
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
    """URL of a file, or datastore and path as one text."""
    if not file.get("store"):
        return file.get("key") or file["path"]
    return "AmlDatastore://%s/%s" % (file["store"], file["key"])


_NUMBER = "\0number"


class Problems(object):
    """Values that could not be converted: null in the result and reported in one warning, or an error at once."""

    def __init__(self, on_error="null", out_of_range_datetime="null"):
        for argument, value in (("on_error", on_error), ("out_of_range_datetime", out_of_range_datetime)):
            if value not in _CHOICES[argument]:
                raise UserErrorException("%s must be %r or %r, got %r." % ((argument,) + _CHOICES[argument] + (value,)))
        self._fails = on_error == "fail"
        self._fails_out_of_range = out_of_range_datetime == "error"
        self._found = {}

    def note(self, column, kind, values):
        """Record that these values (a pandas Series) do not fit the type `kind`."""
        example = values.iloc[0]
        if self._fails:
            raise DatasetExecutionError(
                "%d value(s) of column %r cannot be read as %s, such as %r. Give the column another type with "
                "set_column_types, or pass on_error='null' to have them as null." % (
                    len(values), column, kind, example), None)
        count, first = self._found.get((column, kind), (0, example))
        self._found[(column, kind)] = (count + len(values), first)

    def note_out_of_range(self, column, texts, form):
        """Record texts that were not read as times in this format; some may be out of pandas' range."""
        if not self._fails_out_of_range:
            return
        from datetime import datetime
        for text in texts:
            try:
                datetime.strptime(text, form)
            except ValueError:
                continue
            raise DatasetExecutionError(
                "%r in column %r is outside of the years 1677 to 2262 that pandas can hold. Pass "
                "out_of_range_datetime='null' to have such times as null." % (text, column), None)

    def warn(self):
        """Warn once, for all columns, of values that became null."""
        if self._found:
            import warnings
            sentences = ["%d value(s) of column %r are no %s, such as %r" % (count, column, kind, first)
                         for (column, kind), (count, first) in sorted(self._found.items())]
            warnings.warn("Null in the result: " + "; ".join(sentences) + ". Types come from the first rows unless "
                          "set_column_types names them; on_error='fail' makes this an error.", stacklevel=3)
