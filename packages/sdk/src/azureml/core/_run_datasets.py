"""Named inputs and outputs of a run, as its script sees them."""

from azureml.exceptions import UserErrorException


class InputDatasets(dict):
    """Inputs by name: a path where the data is mounted or downloaded, a Dataset where it is read directly."""

    def __init__(self, workspace):
        super().__init__()
        self.workspace = workspace

    def __missing__(self, name):
        raise UserErrorException("This run has no input dataset {!r}. It has: {}.".format(
            name, ", ".join(sorted(self)) or "none"))


class OutputDatasets(dict):
    """Outputs by name: the path to write to, or an object to link a dataset with."""

    def __init__(self, workspace):
        super().__init__()
        self.workspace = workspace


class LinkOutput:
    """An output for which the script names a dataset."""

    def __init__(self, workspace, name=None):
        self.workspace, self.name = workspace, name

    def link(self, dataset, run=None):
        """Make `dataset` this output of the run (of this script's run, if None)."""
        from azureml.core.run import Run
        from azureml.data.abstract_dataset import AbstractDataset

        if not isinstance(dataset, AbstractDataset):
            raise UserErrorException("dataset must be a dataset, for example Dataset.File.from_files(...), got "
                                     "{!r}.".format(dataset))
        run = run or Run.get_context(allow_offline=False)
        run._client.post_again(run._path + "/outputs", {
            "name": self.name, "dataset_id": dataset._saved(self.workspace).id})


def input_datasets(workspace, variables):
    """The inputs that the variables of a script tell of: `AZUREML_DATASET_ENVIRONMENT_VARS` is `name:mode,...`."""
    found = InputDatasets(workspace)
    for item in filter(None, variables.get("AZUREML_DATASET_ENVIRONMENT_VARS", "").split(",")):
        name, _, mode = item.partition(":")
        value = variables.get(name, "")
        found[name] = _dataset(workspace, value) if mode.lower() == "direct" else value
    return found


def output_datasets(workspace, variables):
    found = OutputDatasets(workspace)
    for name in filter(None, variables.get("AZUREML_DATASET_FILE_OUTPUTS", "").split(";")):
        found[name] = variables.get(name, "")
    for name in filter(None, variables.get("AZUREML_LINK_DATASET_OUTPUTS", "").split(";")):
        found[name] = LinkOutput(workspace, name)
    return found


def _dataset(workspace, dataset_id):
    from azureml.core.dataset import Dataset

    return Dataset.get_by_id(workspace, dataset_id)
