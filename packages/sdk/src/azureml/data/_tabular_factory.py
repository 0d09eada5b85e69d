from azureml._not_yet import unsupported
from azureml.data._sources import sources_of
from azureml.data._tabular_format import delimited_format, json_lines_format, parquet_format


class TabularDatasetFactory(object):
    """Makes tabular datasets: Dataset.Tabular.

    `path` is what Dataset.File.from_files takes. With `validate` the first file is looked for. `include_path` adds a
    column `Path`; `partition_format`, such as '/{country}/{day:yyyy/MM/dd}/data.csv', columns of parts of the path.
    """

    @staticmethod
    def from_delimited_files(path, validate=True, include_path=False, infer_column_types=True, set_column_types=None,
                             separator=",", header=True, partition_format=None, support_multi_line=False,
                             empty_as_string=False, encoding="utf8"):
        """A table of CSV and similar files.

        Types are inferred from the first 200 rows where `set_column_types` does not name them: a column of 0 and 1 is
        one of truth values. Quoted line breaks are read as part of a value, whatever `support_multi_line` says.
        """
        return _dataset(path, validate, delimited_format(
            separator, header, encoding, infer_column_types, set_column_types, include_path, partition_format,
            support_multi_line, empty_as_string))

    @staticmethod
    def from_parquet_files(path, validate=True, include_path=False, set_column_types=None, partition_format=None):
        return _dataset(path, validate, parquet_format(set_column_types, include_path, partition_format))

    @staticmethod
    def from_json_lines_files(path, validate=True, include_path=False, set_column_types=None, partition_format=None,
                              invalid_lines="error", encoding="utf8"):
        """A table of files with a JSON object in each line; `invalid_lines` 'drop' leaves other lines out."""
        return _dataset(path, validate, json_lines_format(
            invalid_lines, encoding, set_column_types, include_path, partition_format))

    @staticmethod
    def from_sql_query(query, validate=True, set_column_types=None, query_timeout=30):
        raise unsupported("from_sql_query", "Read the rows with your database's own driver and hand them over: "
                          "Dataset.Tabular.register_pandas_dataframe(pandas.read_sql(query, connection), ...).")

    @staticmethod
    def register_pandas_dataframe(dataframe, target, name, description=None, tags=None, show_progress=True,
                                  row_group_size=None, make_target_path_unique=True):
        """Write a DataFrame to (datastore, path) as Parquet and register it as the next version of `name`.

        Where there is no pyarrow it is written as CSV, with its column types kept. The index is not stored.
        """
        from azureml.data._tables.writing import register_frame
        return register_frame(dataframe, target, name, description, tags, show_progress, row_group_size,
                              make_target_path_unique)

    @staticmethod
    def register_dask_dataframe(dataframe, target, name, description=None, tags=None, show_progress=True):
        """The same for a dask dataframe, which is computed first."""
        from azureml.data._tables.writing import register_frame
        if not hasattr(dataframe, "compute"):
            from azureml.exceptions import UserErrorException
            raise UserErrorException("dataframe must be a dask dataframe, got %s." % type(dataframe).__name__)
        return register_frame(dataframe.compute(), target, name, description, tags, show_progress)

    @staticmethod
    def register_spark_dataframe(dataframe, target, name, description=None, tags=None, show_progress=True):
        raise unsupported("register_spark_dataframe", "There is no Spark here; use register_pandas_dataframe with "
                          "dataframe.toPandas().")


def _dataset(path, validate, form):
    from azureml.data.dataset_factory import check_data
    from azureml.data.tabular_dataset import TabularDataset
    sources, workspace = sources_of(path)
    made = TabularDataset._of_format(sources, workspace, form, validate)
    if validate:
        check_data(made)
    return made
