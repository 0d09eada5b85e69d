"""Data from a folder to a result in two runs: files are uploaded, mounted, cleaned into an output, read as a table."""

import csv
import tempfile
from pathlib import Path

from azureml.core import Dataset, Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.conda_dependencies import CondaDependencies
from azureml.data import OutputFileDatasetConfig

STATIONS, DAYS = 5, 60
HERE = str(Path(__file__).parent)


def measure(folder):
    """Write a file for each station: days that become warmer, some of them missing."""
    for station in range(STATIONS):
        with (folder / f"station-{station}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["day", "fahrenheit"])
            for day in range(DAYS):
                celsius = 8 + station + 0.05 * day
                writer.writerow([day, "" if (day + station) % 10 == 0 else celsius * 1.8 + 32])


workspace = Workspace.from_config()
experiment = Experiment(workspace, "weather")
store = workspace.get_default_datastore()

with tempfile.TemporaryDirectory() as folder:
    measure(Path(folder))
    store.upload(folder, target_path="weather/measured", overwrite=True)
measured = Dataset.File.from_files((store, "weather/measured"))
measured = measured.register(workspace, "measured-weather", create_new_version=True)
print("Registered", measured.name, "version", measured.version, "of", len(measured.to_path()), "files")

cleaned = OutputFileDatasetConfig("cleaned", destination=(store, "weather/cleaned/{run-id}"))
cleaned = cleaned.read_delimited_files().register_on_complete("weather")
arguments = [measured.as_named_input("measured").as_mount(), cleaned]
run = experiment.submit(ScriptRunConfig(HERE, "clean.py", arguments=arguments, environment=Environment("plain")))
run.wait_for_completion()
print("Cleaned:", run.get_metrics())

weather = Dataset.get_by_name(workspace, "weather")
print("Registered", weather.name, "version", weather.version, "by run", run.id)
tables = Environment("tables")
tables.python.conda_dependencies = CondaDependencies.create(pip_packages=["pandas"])
run = experiment.submit(
    ScriptRunConfig(HERE, "fit.py", arguments=[weather.as_named_input("weather")], environment=tables)
)
run.wait_for_completion(show_output=True)
print("Metrics:", run.get_metrics())
