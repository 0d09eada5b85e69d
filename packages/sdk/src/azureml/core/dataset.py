"""`Dataset`, and its older factories: mapped to Dataset.File and Dataset.Tabular, or refused with a hint."""

from azureml._unsupported import unsupported
from azureml.data.abstract_dataset import AbstractDataset
from azureml.data.dataset_factory import FileDatasetFactory, TabularDatasetFactory
from azureml.data.dataset_type_definitions import (  # noqa: F401
    FileEncoding, HistogramCompareMethod, PromoteHeadersBehavior, SkipLinesBehavior)


class _LegacyFactories(object):
    """Old factories, which make today's datasets."""

    @staticmethod
    def auto_read_files(path, include_path=False, partition_format=None):
        """Table of the files, in the format of their ending: .parquet, .jsonl, .json, .tsv; otherwise CSV."""
        from azureml.data._service_files import resolved
        files = resolved(FileDatasetFactory.from_files(path), limit=1)
        name = files[0]["path"].lower()
        kept = {"include_path": include_path, "partition_format": partition_format}
        if name.endswith((".parquet", ".parq")):
            return TabularDatasetFactory.from_parquet_files(path, **kept)
        if name.endswith((".jsonl", ".json")):
            return TabularDatasetFactory.from_json_lines_files(path, **kept)
        return TabularDatasetFactory.from_delimited_files(path, separator="\t" if ".tsv" in name else ",", **kept)

    @staticmethod
    def from_delimited_files(path, separator=",", header=PromoteHeadersBehavior.ALL_FILES_HAVE_SAME_HEADERS,
                             encoding=FileEncoding.UTF8, quoting=False, infer_column_types=True, skip_rows=0,
                             skip_mode=SkipLinesBehavior.NO_ROWS, comment=None, include_path=False,
                             archive_options=None, partition_format=None):
        given = {"skip_rows": skip_rows, "comment": comment, "archive_options": archive_options}
        for argument, value in sorted(given.items()):
            if value:
                raise unsupported("%s of Dataset.from_delimited_files" % argument,
                                  "Write the files without what it leaves out.")
        return TabularDatasetFactory.from_delimited_files(
            path, separator=separator, header=header, encoding=encoding, infer_column_types=infer_column_types,
            include_path=include_path, partition_format=partition_format, support_multi_line=quoting)

    @staticmethod
    def from_parquet_files(path, include_path=False, partition_format=None):
        return TabularDatasetFactory.from_parquet_files(
            path, include_path=include_path, partition_format=partition_format)

    @staticmethod
    def from_binary_files(path):
        return FileDatasetFactory.from_files(path)

    @staticmethod
    def from_sql_query(data_source, query):
        return TabularDatasetFactory.from_sql_query(query)

    @staticmethod
    def from_pandas_dataframe(dataframe, path=None, in_memory=False):
        raise unsupported("Dataset.from_pandas_dataframe", "Use Dataset.Tabular.register_pandas_dataframe(dataframe, "
                          "(datastore, 'path'), 'name').")

    @staticmethod
    def from_excel_files(path, sheet_name=None, use_column_headers=False, skip_rows=0, include_path=False,
                         infer_column_types=True, partition_format=None):
        raise unsupported("Dataset.from_excel_files", "Read the files with pandas.read_excel and hand the rows over: "
                          "Dataset.Tabular.register_pandas_dataframe(...).")

    @staticmethod
    def from_json_files(path, encoding=FileEncoding.UTF8, flatten_nested_arrays=False, include_path=False,
                        partition_format=None):
        raise unsupported("Dataset.from_json_files", "Write one JSON object a line and use "
                          "Dataset.Tabular.from_json_lines_files(path).")


class _Scenario(object):
    TRAINING = "training"
    VALIDATION = "validation"
    INFERENCING = "inferencing"


class Dataset(_LegacyFactories, AbstractDataset):
    """Datasets are created with Dataset.File and Dataset.Tabular, and found by name or id."""

    File = FileDatasetFactory
    Tabular = TabularDatasetFactory
    Scenario = _Scenario

    def __init__(self, definition, workspace=None, name=None, id=None):
        raise unsupported("Dataset()", "Make one with Dataset.File.from_files or Dataset.Tabular.from_delimited_files, "
                          "or find one with Dataset.get_by_name.")

    @staticmethod
    def get(workspace, name=None, id=None):
        """Old name of get_by_name and get_by_id."""
        return Dataset.get_by_id(workspace, id) if id is not None else Dataset.get_by_name(workspace, name)

    @staticmethod
    def list(workspace):
        return sorted(Dataset.get_all(workspace).values(), key=lambda dataset: dataset.name)
