"""Showing a run: live text in a terminal, a table that refreshes itself in a notebook."""

from azureml.widgets.parallel_run_step_details import ParallelRunStepDetails
from azureml.widgets.run_details import RunDetails

__all__ = ["ParallelRunStepDetails", "RunDetails"]
