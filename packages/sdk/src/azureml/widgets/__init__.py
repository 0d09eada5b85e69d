"""Widgets: live text in a terminal, a refreshing table in a notebook."""

from azureml.widgets.parallel_run_step_details import ParallelRunStepDetails
from azureml.widgets.run_details import RunDetails

__all__ = ["ParallelRunStepDetails", "RunDetails"]
