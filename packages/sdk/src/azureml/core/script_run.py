from azureml._lazy import lazy_names
from azureml.core.run import Run
from azureml.exceptions import AzureMLException  # noqa: F401

__all__ = ["ScriptRun"]


class ScriptRun(Run):
    """A submitted run: the service starts it, and it ends with its script."""

    RUN_TYPE = "azureml.scriptrun"

    def __init__(self, experiment, run_id, directory=None, _run_config=None, **kwargs):
        super().__init__(experiment, run_id, **kwargs)
        self._directory = directory

    def cancel(self):
        """Request cancellation; no effect on a run that has ended."""
        super().cancel()


# Names that the original module imports, and that v1 code imports from here.
lazy_names(__name__, {
    "RunConfiguration": "azureml.core.runconfig",
    "UserErrorException": "azureml.exceptions",
})
