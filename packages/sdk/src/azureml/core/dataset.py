from azureml._not_yet import not_yet
from azureml.data.abstract_dataset import AbstractDataset
from azureml.data.dataset_factory import FileDatasetFactory, TabularDatasetFactory
from azureml.data.dataset_type_definitions import (  # noqa: F401
    FileEncoding, HistogramCompareMethod, PromoteHeadersBehavior, SkipLinesBehavior)


class _Scenario(object):
    TRAINING = "training"
    VALIDATION = "validation"
    INFERENCING = "inferencing"


class Dataset(AbstractDataset):
    """Datasets are made with Dataset.File (and, from part 2 on, Dataset.Tabular) and found by name or id."""

    File = FileDatasetFactory
    Tabular = TabularDatasetFactory
    Scenario = _Scenario

    def __init__(self, definition, workspace=None, name=None, id=None):
        raise not_yet("A dataset made from a definition; use Dataset.File.from_files instead. The old Dataset()", 2)

    @staticmethod
    def get(workspace, name=None, id=None):
        """The old name of get_by_name and get_by_id."""
        return Dataset.get_by_id(workspace, id) if id is not None else Dataset.get_by_name(workspace, name)

    @staticmethod
    def list(workspace):
        return sorted(Dataset.get_all(workspace).values(), key=lambda dataset: dataset.name)
