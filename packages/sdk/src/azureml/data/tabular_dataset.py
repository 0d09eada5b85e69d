from azureml._unsupported import unsupported
from azureml.data.abstract_dataset import AbstractDataset, checked_columns, checked_count, checked_share, seed_of
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.exceptions import AzureMLException, DatasetTimestampMissingError, UserErrorException  # noqa: F401


class _TimeSeries(object):
    """Time filters of a tabular dataset, once it is known which column holds the time of a row."""

    @property
    def timestamp_columns(self):
        """(time column, partition time column); None for one that is not set or was dropped."""
        found = (None, None)
        for step in self._steps:
            if step[0] == "timestamps":
                found = (step[1], step[2])
            elif step[0] == "keep_columns":
                found = tuple(name if name in step[1] else None for name in found)
            elif step[0] == "drop_columns":
                found = tuple(None if name in step[1] else name for name in found)
        return found

    def with_timestamp_columns(self, timestamp=None, partition_timestamp=None, validate=False, **kwargs):
        """Set the time columns; None for both unsets them. `validate` checks that they hold times."""
        timestamp = kwargs.pop("fine_grain_timestamp", timestamp)
        partition_timestamp = kwargs.pop("coarse_grain_timestamp", partition_timestamp)
        if kwargs:
            raise UserErrorException("with_timestamp_columns has no argument %r." % sorted(kwargs)[0])
        for argument, name in (("timestamp", timestamp), ("partition_timestamp", partition_timestamp)):
            if name is not None and (not isinstance(name, str) or not name):
                raise UserErrorException("%s must be the name of a column, got %r." % (argument, name))
        if timestamp is not None and timestamp == partition_timestamp:
            raise UserErrorException("partition_timestamp must be another column than timestamp, %r." % timestamp)
        made = self._derived(["timestamps", timestamp, partition_timestamp])
        if validate:
            _check_times(self, [name for name in (timestamp, partition_timestamp) if name])
        return made

    def time_before(self, end_time, include_boundary=True, validate=True):
        """Rows before `end_time`."""
        return self._in_time("time_before", None, _checked_time("end_time", end_time), include_boundary)

    def time_after(self, start_time, include_boundary=True, validate=True):
        """Rows after `start_time`."""
        return self._in_time("time_after", _checked_time("start_time", start_time), None, include_boundary)

    def time_between(self, start_time, end_time, include_boundary=True, validate=True):
        start, end = _checked_time("start_time", start_time), _checked_time("end_time", end_time)
        if start > end:
            raise UserErrorException("start_time %s is later than end_time %s." % (start, end))
        return self._in_time("time_between", start, end, include_boundary)

    def time_recent(self, time_delta, include_boundary=True, validate=True):
        """Rows of the last `time_delta` before now (UTC)."""
        from datetime import datetime, timedelta
        if not isinstance(time_delta, timedelta):
            raise UserErrorException("time_delta must be a datetime.timedelta, got %r." % (time_delta,))
        return self._in_time("time_recent", datetime.utcnow() - time_delta, None, include_boundary)

    def _in_time(self, method, start, end, include_boundary):
        fine, coarse = self.timestamp_columns
        if fine is None and coarse is None:
            raise DatasetTimestampMissingError(
                "%s needs to know which column holds the times. Say so: dataset.with_timestamp_columns('time')." % (
                    method,))
        made = self
        if coarse is not None:
            begin = None if start is None else _begin_of_part(self, coarse, start)
            made = made._derived(["time", coarse, _time_text(begin), _time_text(end), True])
        if fine is not None:
            made = made._derived(["time", fine, _time_text(start), _time_text(end), bool(include_boundary)])
        return made


def _begin_of_part(dataset, key, time):
    """Start of the partition that holds this time: 2019-05-17 in {t:yyyy/MM} gives 2019-05-01."""
    from datetime import datetime
    form = dataset._partitions().time_formats.get(key)
    return datetime.strptime(time.strftime(form), form) if form else time


def _checked_time(argument, value):
    """Datetime in UTC without tzinfo."""
    from datetime import datetime, timezone
    if not isinstance(value, datetime):
        raise UserErrorException("%s must be a datetime.datetime, got %r." % (argument, value))
    return value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo is not None else value


def _time_text(time):
    return None if time is None else time.isoformat()


def _check_times(dataset, names):
    from azureml.data.dataset_error_handling import DatasetValidationError
    frame = dataset.take(1).to_pandas_dataframe()
    wrong = [name for name in names if name not in frame.columns or frame[name].dtype.kind != "M"]
    if wrong:
        raise DatasetValidationError("The columns %s are not there or hold no times. Columns of times are: %s." % (
            ", ".join(map(repr, wrong)),
            ", ".join(repr(name) for name in frame.columns if frame[name].dtype.kind == "M") or "none"))


class TabularDataset(_TimeSeries, AbstractDataset):
    """A table: files of one format, and steps that are applied to its rows when it is read.

    Read with the pandas (and, for Parquet, the pyarrow) of the current Python environment.
    """

    _type = "tabular"
    _origin = None

    def __init__(self):
        super(TabularDataset, self).__init__()

    def to_pandas_dataframe(self, on_error="null", out_of_range_datetime="null"):
        """All rows. Values that do not fit their column's type are null, with a warning; on_error='fail' raises."""
        from azureml.data._tables.reader import Problems
        from azureml.data._tables.reader import frame_of
        problems = Problems(on_error, out_of_range_datetime)
        frame = frame_of(self, problems)
        problems.warn()
        return frame

    def to_dask_dataframe(self, sample_size=10000, dtypes=None, on_error="null", out_of_range_datetime="null"):
        """Rows as a dask dataframe; pandas reads them first."""
        from azureml.data._tables.libraries import dask_for
        dask = dask_for("to_dask_dataframe")
        frame = self.to_pandas_dataframe(on_error, out_of_range_datetime)
        return dask.from_pandas(frame.astype(dtypes) if dtypes else frame,
                                npartitions=max(1, len(frame) // max(1, sample_size)))

    def to_spark_dataframe(self):
        raise unsupported("to_spark_dataframe()", "There is no Spark here; where you have a session of your own: "
                          "spark.createDataFrame(dataset.to_pandas_dataframe()).")

    def to_csv_files(self, separator=","):
        """FileDataset with the rows as one delimited file, written to the default datastore."""
        from azureml.data._tables.writer import as_csv_files
        return as_csv_files(self, separator)

    def to_parquet_files(self):
        """FileDataset with the rows as one Parquet file, written to the default datastore."""
        from azureml.data._tables.writer import as_parquet_files
        return as_parquet_files(self)

    def take(self, count):
        """The first `count` rows. Reads only the beginning of long files."""
        return self._derived(["take", checked_count(count, "rows")])

    def skip(self, count):
        """All but the first `count` rows."""
        return self._derived(["skip", checked_count(count, "rows")])

    def take_sample(self, probability, seed=None):
        """Each row with this probability; the same rows for the same seed."""
        return self._derived(["sample", checked_share("probability", probability), seed_of(seed), True])

    def random_split(self, percentage, seed=None):
        """Two complementary datasets; the first has about this share (0 to 1) of the rows."""
        share, seed = checked_share("percentage", percentage), seed_of(seed)
        return self._derived(["sample", share, seed, True]), self._derived(["sample", share, seed, False])

    def keep_columns(self, columns, validate=False):
        """Only these columns, in the order of the files; `validate` checks that each exists."""
        return self._with_columns("keep_columns", columns, validate)

    def drop_columns(self, columns):
        return self._with_columns("drop_columns", columns, False)

    def filter(self, expression):
        """Rows that match an expression, such as (dataset['age'] > 30) & (dataset['city'] == 'Rome')."""
        from azureml.data._expressions import checked
        return self._derived(["filter", checked(expression)])

    def partition_by(self, partition_keys, target, name=None, show_progress=True, partition_as_file_dataset=False):
        """Write the rows to (datastore, path), a folder per combination of key values; return a dataset of them.

        With a `name` it is registered. filter() on a partition key then reads only the matching files.
        """
        from azureml.data._tables.writer import partitioned
        return partitioned(self, partition_keys, target, name, show_progress, partition_as_file_dataset)

    def download(self, stream_column, target_path=None, overwrite=False, ignore_not_found=True):
        """Download the files that a column names (`Path` of include_path, or a DataType.to_stream column); return local
        paths."""
        from azureml.data._tables.streams import downloaded
        return downloaded(self, stream_column, target_path, overwrite, ignore_not_found)

    def mount(self, stream_column, mount_point=None):
        raise unsupported("Mounting the files that a table names", "Fetch them with download(stream_column), or make a "
                          "file dataset of them and mount it: Dataset.File.from_files(...).mount().")

    def get_profile(self, workspace=None):
        """Counts, ranges and quantiles of each column, computed now."""
        from azureml.data.dataset_profile import DatasetProfile
        return DatasetProfile._of(self, workspace)

    def get_profile_runs(self, workspace=None):
        raise unsupported("Profile runs", "get_profile() reckons the profile at once.")

    def submit_profile_run(self, compute_target, experiment, cache_datastore_name=None):
        raise unsupported("A profile run", "get_profile() reckons the profile at once.")

    @classmethod
    def _of_format(cls, sources, workspace, form, validates):
        made = cls()
        made._sources, made._workspace, made._format, made._validates = sources, workspace, form, bool(validates)
        return made

    def _derived(self, step):
        made = super(TabularDataset, self)._derived(step)
        made._origin = self._read_through()
        return made

    def _read_through(self):
        """Dataset whose files these are, which is stored once: steps change only rows."""
        return self if self._origin is None else self._origin

    def _with_columns(self, step, columns, validate):
        columns = checked_columns(columns)
        if validate:
            present = list(self.take(1).to_pandas_dataframe().columns)
            absent = [name for name in columns if name not in present]
            if absent:
                from azureml.data.dataset_error_handling import DatasetValidationError
                raise DatasetValidationError("columns names %s, which the table does not have. Its columns are %s." % (
                    ", ".join(map(repr, absent)), ", ".join(map(repr, present))))
        return self._derived([step, columns])


AbstractDataset._classes["tabular"] = TabularDataset
