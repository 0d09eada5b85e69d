"""Tables read inside environments that the platform builds, with pandas from 0.25 on."""

import subprocess
import sys

import pytest

SUBMIT = """
import sys
from azureml.core import Dataset, Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.conda_dependencies import CondaDependencies

python, packages = sys.argv[1], sys.argv[2:]
workspace = Workspace.create("tables", exist_ok=True, show_output=False)
store = workspace.get_default_datastore()
store.upload("data", target_path="people", overwrite=True, show_progress=False)
people = Dataset.Tabular.from_delimited_files((store, "people/*.csv")).with_timestamp_columns("since")
environment = Environment("tables")
environment.python.conda_dependencies = CondaDependencies.create(python_version=python, pip_packages=packages)
config = ScriptRunConfig("source", "read.py", environment=environment, arguments=[people.as_named_input("people")])
run = Experiment(workspace, "tables").submit(config)
run.wait_for_completion(show_output=True)
print(Dataset.get_by_name(workspace, "adults").to_pandas_dataframe()["name"].tolist())
"""
READ = """
from datetime import datetime
import pandas
from azureml.core import Dataset, Run

run = Run.get_context()
people = run.input_datasets["people"]
frame = people.to_pandas_dataframe()
print("pandas", pandas.__version__, [dtype.kind for dtype in frame.dtypes])
print("recent", people.time_after(datetime(2020, 1, 1)).to_pandas_dataframe()["name"].tolist())
adults = people.filter(people["age"] >= 18).to_pandas_dataframe()
store = run.experiment.workspace.get_default_datastore()
Dataset.Tabular.register_pandas_dataframe(adults, (store, "adults"), "adults", show_progress=False)
"""
PEOPLE = "name,age,member,since\nÄda,36,1,2019-05-01\nBo,7,0,2020-05-01 10:00:00\nCy,18,1,2021-05-01T10:00:00Z\n"


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("python", "packages"),
    [
        ("3.6.2", ["pandas==0.25.3", "pyarrow==0.15.1"]),
        ("3.7", ["pandas==1.1.5", "pyarrow==3.0.0"]),
        ("3.8", ["pandas==1.5.3"]),
    ],
    ids=["pandas 0.25", "pandas 1.1", "pandas 1.5 without pyarrow"],
)
def test_a_table_is_read_and_written_in_an_old_environment(environment, tmp_path, python, packages):
    (tmp_path / "source").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "source" / "read.py").write_text(READ)
    (tmp_path / "data" / "people.csv").write_text(PEOPLE)
    done = subprocess.run(
        [sys.executable, "-c", SUBMIT, python, *packages],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert f"pandas {packages[0].partition('==')[2]} ['O', 'i', 'b', 'M']" in done.stdout
    assert "recent ['Bo', 'Cy']" in done.stdout
    assert done.stdout.rstrip().endswith("['Äda', 'Cy']")
