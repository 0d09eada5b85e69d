"""Fit a line through all measurements: the run's input is a table, read as a data frame."""

import numpy as np

from azureml.core import Run

run = Run.get_context()
table = run.input_datasets["weather"].to_pandas_dataframe()
slope, start = np.polyfit(table["day"], table["celsius"], deg=1)
print(f"{len(table)} measurements: {start:.2f} degrees on the first day, {slope:+.4f} a day")
run.log("measurements", len(table))
run.log("degrees_a_day", float(slope))
