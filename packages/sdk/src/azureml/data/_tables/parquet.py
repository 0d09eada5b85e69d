from azureml.data._tables.conversion import typed
from azureml.data._tables.libraries import pandas_for, parquet_for
from azureml.data.dataset_error_handling import DatasetExecutionError


class ParquetReader(object):
    """Reads the Parquet files of a table with the user's pyarrow, only the wanted columns and rows of each."""

    def __init__(self, form, problems, wanted=None):
        self._form, self._problems, self._wanted = form, problems, wanted

    def read(self, path, rows=None):
        pandas_for("Reading Parquet files")
        pyarrow, parquet = parquet_for("Reading Parquet files")
        try:
            file = parquet.ParquetFile(path)
            names = file.schema.to_arrow_schema().names
            columns = [name for name in names if name in (self._wanted or ())] or names
            table = self._table(pyarrow, file, columns, rows)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise DatasetExecutionError("A file cannot be read as Parquet: %s." % error, error)
        return table.to_pandas(ignore_metadata=True, date_as_object=False)

    def settled(self, frame):
        return typed(frame, self._form["column_types"], self._problems)

    @staticmethod
    def _table(pyarrow, file, columns, rows):
        if rows is None:
            return file.read(columns=columns)
        groups, count = [], 0
        while count < rows and len(groups) < file.num_row_groups:
            groups.append(file.read_row_group(len(groups), columns=columns))
            count += groups[-1].num_rows
        table = pyarrow.concat_tables(groups) if groups else file.read(columns=columns)
        return table.slice(0, rows)
