from azureml._not_yet import unsupported
from azureml.data._selection import checked_columns, checked_count, checked_share, seed_of
from azureml.data._time_series import TimeSeries
from azureml.data.abstract_dataset import AbstractDataset
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.exceptions import AzureMLException, DatasetTimestampMissingError, UserErrorException  # noqa: F401


class TabularDataset(TimeSeries, AbstractDataset):
    """A table: files of one format, and steps that are applied to its rows when it is read.

    It is read with the pandas (and, for Parquet, the pyarrow) of the Python environment it is used in.
    """

    _type = "tabular"
    _origin = None

    def __init__(self):
        super(TabularDataset, self).__init__()

    def to_pandas_dataframe(self, on_error="null", out_of_range_datetime="null"):
        """All rows. Values that are not of their column's type are null, with a warning; on_error='fail' raises."""
        from azureml.data._tables.problems import Problems
        from azureml.data._tables.reading import frame_of
        problems = Problems(on_error, out_of_range_datetime)
        frame = frame_of(self, problems)
        problems.warn()
        return frame

    def to_dask_dataframe(self, sample_size=10000, dtypes=None, on_error="null", out_of_range_datetime="null"):
        """The rows as a dask dataframe; they are read by pandas first."""
        from azureml.data._tables.libraries import dask_for
        dask = dask_for("to_dask_dataframe")
        frame = self.to_pandas_dataframe(on_error, out_of_range_datetime)
        return dask.from_pandas(frame.astype(dtypes) if dtypes else frame,
                                npartitions=max(1, len(frame) // max(1, sample_size)))

    def to_spark_dataframe(self):
        raise unsupported("to_spark_dataframe()", "There is no Spark here; where you have a session of your own: "
                          "spark.createDataFrame(dataset.to_pandas_dataframe()).")

    def to_csv_files(self, separator=","):
        """A FileDataset with the rows as one delimited file, written to the default datastore."""
        from azureml.data._tables.writing import as_csv_files
        return as_csv_files(self, separator)

    def to_parquet_files(self):
        """A FileDataset with the rows as one Parquet file, written to the default datastore."""
        from azureml.data._tables.writing import as_parquet_files
        return as_parquet_files(self)

    def take(self, count):
        """The first `count` rows. Of long files only the beginning is read."""
        return self._derived(["take", checked_count(count, "rows")])

    def skip(self, count):
        """All rows but the first `count`."""
        return self._derived(["skip", checked_count(count, "rows")])

    def take_sample(self, probability, seed=None):
        """Each row with this probability; the same rows for the same seed."""
        return self._derived(["sample", checked_share("probability", probability), seed_of(seed), True])

    def random_split(self, percentage, seed=None):
        """Two datasets that together are this one; the first has about this share (0 to 1) of the rows."""
        share, seed = checked_share("percentage", percentage), seed_of(seed)
        return self._derived(["sample", share, seed, True]), self._derived(["sample", share, seed, False])

    def keep_columns(self, columns, validate=False):
        """Only these columns, in the order of the files; with `validate`, each must be there."""
        return self._with_columns("keep_columns", columns, validate)

    def drop_columns(self, columns):
        return self._with_columns("drop_columns", columns, False)

    def filter(self, expression):
        """The rows for which an expression holds, such as (dataset['age'] > 30) & (dataset['city'] == 'Rome')."""
        from azureml.data._expressions import checked
        return self._derived(["filter", checked(expression)])

    def partition_by(self, partition_keys, target, name=None, show_progress=True, partition_as_file_dataset=False):
        """Write the rows to (datastore, path), a folder for each combination of the keys' values; a dataset of them.

        With a `name` it is registered. filter() on a partition key then reads the files of those values alone.
        """
        from azureml.data._tables.partitioning import partitioned
        return partitioned(self, partition_keys, target, name, show_progress, partition_as_file_dataset)

    def download(self, stream_column, target_path=None, overwrite=False, ignore_not_found=True):
        """Fetch the files that a column names (`Path` of include_path, or a DataType.to_stream column); local paths."""
        from azureml.data._tables.streams import downloaded
        return downloaded(self, stream_column, target_path, overwrite, ignore_not_found)

    def mount(self, stream_column, mount_point=None):
        raise unsupported("Mounting the files that a table names", "Fetch them with download(stream_column), or make a "
                          "file dataset of them and mount it: Dataset.File.from_files(...).mount().")

    def get_profile(self, workspace=None):
        """Counts, ranges and quantiles of each column, reckoned now."""
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
        """The dataset whose files these are: steps change rows alone, so what they are made of is stored once."""
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
