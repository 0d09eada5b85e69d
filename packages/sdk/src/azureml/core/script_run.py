from azureml._lazy import lazy_names
from azureml.core.run import Run
from azureml.exceptions import AzureMLException  # noqa: F401

__all__ = ["ScriptRun"]


class ScriptRun(Run):
    """A run that was submitted: the service starts it, and it ends with its script."""

    RUN_TYPE = "azureml.scriptrun"

    def __init__(self, experiment, run_id, directory=None, _run_config=None, **kwargs):
        super().__init__(experiment, run_id, **kwargs)
        self._directory = directory

    def cancel(self):
        """Ask for the run to be stopped; quiet when it has ended."""
        super().cancel()


# Names that v1 code finds here because the original imported them here.
lazy_names(__name__, {
    "RunConfiguration": "azureml.core.runconfig",
    "UserErrorException": "azureml.exceptions",
})
