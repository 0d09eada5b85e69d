from azureml._not_yet import unsupported
from azureml.core._legacy_factories import LegacyFactories
from azureml.data.abstract_dataset import AbstractDataset
from azureml.data.dataset_factory import FileDatasetFactory, TabularDatasetFactory
from azureml.data.dataset_type_definitions import (  # noqa: F401
    FileEncoding, HistogramCompareMethod, PromoteHeadersBehavior, SkipLinesBehavior)


class _Scenario(object):
    TRAINING = "training"
    VALIDATION = "validation"
    INFERENCING = "inferencing"


class Dataset(LegacyFactories, AbstractDataset):
    """Datasets are made with Dataset.File and Dataset.Tabular, and found by name or id."""

    File = FileDatasetFactory
    Tabular = TabularDatasetFactory
    Scenario = _Scenario

    def __init__(self, definition, workspace=None, name=None, id=None):
        raise unsupported("Dataset()", "Make one with Dataset.File.from_files or Dataset.Tabular.from_delimited_files, "
                          "or find one with Dataset.get_by_name.")

    @staticmethod
    def get(workspace, name=None, id=None):
        """The old name of get_by_name and get_by_id."""
        return Dataset.get_by_id(workspace, id) if id is not None else Dataset.get_by_name(workspace, name)

    @staticmethod
    def list(workspace):
        return sorted(Dataset.get_all(workspace).values(), key=lambda dataset: dataset.name)
