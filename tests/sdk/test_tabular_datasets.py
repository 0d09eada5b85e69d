"""Tabular datasets of a real service, read and written by this process's pandas."""

import random
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pandas
import pytest

from azureml.core import Dataset, Datastore, Experiment, Workspace
from azureml.data import DataType, FileDataset, TabularDataset
from azureml.data.dataset_error_handling import DatasetExecutionError, DatasetValidationError
from azureml.exceptions import UserErrorException
from tests.sdk.yard import submit

Frame = pandas.DataFrame


@pytest.fixture
def store(workspace: Workspace) -> Datastore:
    return workspace.get_default_datastore()


@pytest.fixture
def put(store: Datastore, tmp_path: Path):
    """Put texts on the default datastore, each under its path."""

    def put_files(**texts: str) -> None:
        for name, text in texts.items():
            (tmp_path / "data").mkdir(exist_ok=True)
            (tmp_path / "data" / name.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "data" / name.replace("__", "/")).write_text(text)
        store.upload(str(tmp_path / "data"), show_progress=False)

    return put_files


@pytest.fixture
def numbers(store: Datastore, put) -> TabularDataset:
    """A thousand rows in two files."""
    header = "n,half,name\n"
    rows = [f"{number},{number / 2},row {number}\n" for number in range(2, 1002)]
    put(numbers__a=header + "".join(rows[:600]), numbers__b=header + "".join(rows[600:]))
    return Dataset.Tabular.from_delimited_files((store, "numbers/*"))


def column(dataset: TabularDataset, name: str = "n") -> list:
    return dataset.to_pandas_dataframe()[name].tolist()


@pytest.fixture(autouse=True)
def nothing_is_left_behind(monkeypatch, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    yield
    assert list(scratch.glob("runyard-table-*")) == []


def test_rows_of_all_files_come_in_order_with_a_fresh_index(numbers):
    frame = numbers.to_pandas_dataframe()
    assert (frame["n"].tolist(), list(frame.index)) == (list(range(2, 1002)), list(range(1000)))
    assert list(frame.columns) == ["n", "half", "name"]


def test_steps_are_applied_in_their_order(numbers):
    assert column(numbers.skip(598).take(4)) == [600, 601, 602, 603]
    assert column(numbers.take(4).skip(3)) == [5]
    assert column(numbers.filter(numbers["n"] > 500).take(2)) == [501, 502]
    assert column(numbers.take(0)) == []
    assert list(numbers.keep_columns(["name", "n"]).take(1).to_pandas_dataframe().columns) == ["n", "name"]
    assert list(numbers.drop_columns("name").take(1).to_pandas_dataframe().columns) == ["n", "half"]


def test_columns_that_are_not_there(numbers):
    assert column(numbers.keep_columns(["n", "absent"]).take(1)) == [2]
    with pytest.raises(UserErrorException, match=r"of which the table has none\. Its columns are 'n', 'half', 'name'"):
        numbers.keep_columns("absent").to_pandas_dataframe()
    with pytest.raises(DatasetValidationError, match="'absent', which the table does not have"):
        numbers.keep_columns(["n", "absent"], validate=True)
    with pytest.raises(UserErrorException, match=r"no column 'absent'\. The columns are"):
        numbers.filter(numbers["absent"] == 1).to_pandas_dataframe()


def test_a_split_is_reproducible_and_its_parts_are_the_whole(numbers):
    first, second = (column(part) for part in numbers.random_split(0.8, seed=7))
    draw = random.Random(7)
    assert first == [number for number in range(2, 1002) if draw.random() < 0.8]
    assert sorted(first + second) == list(range(2, 1002))
    assert 700 < len(first) < 900
    once, others = numbers.random_split(0.5)
    assert column(once) == column(once)
    assert not set(column(once)) & set(column(others))
    large = 2**70 + 5
    draw = random.Random(large)
    assert column(numbers.take_sample(0.1, large)) == [n for n in range(2, 1002) if draw.random() < 0.1]


def test_filters(numbers):
    n, name = numbers["n"], numbers["name"]
    assert column(numbers.filter((n >= 5) & (n < 7) | (name == "row 900"))) == [5, 6, 900]
    assert column(numbers.filter(~(n > 3))) == [2, 3]
    assert column(numbers.filter(name.startswith("row 99") & name.endswith("9") & name.contains("w 9"))) == [99, 999]
    assert column(numbers.filter(n == numbers["half"])) == []
    assert column(numbers.filter(n.is_null())) == []
    with pytest.raises(UserErrorException, match=r"Column 'name' holds .* cannot be compared with 5"):
        numbers.filter(name > 5).to_pandas_dataframe()


def test_nulls_are_like_nothing(store, put):
    put(nulls="a,b\nx,1\n,2\ny,\n")
    dataset = Dataset.Tabular.from_delimited_files((store, "nulls"))
    assert column(dataset.filter(dataset["a"] != "x"), "a") == ["y"]
    assert column(dataset.filter(dataset["b"] == None), "a") == ["y"]  # noqa: E711


@pytest.fixture
def weather(store: Datastore, put) -> TabularDataset:
    put(
        weather__rome__2019__01="time,value\n2019-01-10 05:00:00,1\n2019-01-20,2\n",
        weather__rome__2019__02="time,value\n2019-02-01,3\n",
        weather__oslo__2019__02="time,value\n2019-02-05,4\n2019-02-07,5\n",
    )
    return Dataset.Tabular.from_delimited_files(
        (store, "weather/**"), include_path=True, partition_format="weather/{city}/{month:yyyy/MM}"
    )


def test_parts_of_paths_become_columns(weather):
    frame = weather.to_pandas_dataframe()
    assert list(frame.columns) == ["Path", "city", "month", "time", "value"]
    assert frame["city"].tolist() == ["oslo", "oslo", "rome", "rome", "rome"]
    assert frame["month"].max() == pandas.Timestamp(2019, 2, 1)
    assert frame["Path"][0] == "AmlDatastore://workspaceblobstore/weather/oslo/2019/02"
    assert weather.partition_keys == ["city", "month"]
    assert weather.get_partition_key_values(["city"]) == [{"city": "oslo"}, {"city": "rome"}]


def test_a_filter_on_partitions_reads_their_files_alone(weather, put):
    put(weather__rome__2018__12='time,value\n"a file that cannot be read')
    with pytest.raises(DatasetExecutionError):
        weather.to_pandas_dataframe()
    assert column(weather.filter(weather["city"] == "oslo"), "value") == [4, 5]
    late = weather.with_timestamp_columns("time", "month").time_after(datetime(2019, 1, 15))
    assert column(late.filter(late["city"] == "rome"), "value") == [2, 3]


def test_time_filters(weather):
    timed = weather.with_timestamp_columns("time", validate=True)
    assert column(timed.time_before(datetime(2019, 1, 20)), "value") == [1, 2]
    assert column(timed.time_before(datetime(2019, 1, 20), include_boundary=False), "value") == [1]
    assert column(timed.time_after(datetime(2019, 2, 5), include_boundary=False), "value") == [5]
    assert column(timed.time_between(datetime(2019, 1, 15), datetime(2019, 2, 6)), "value") == [4, 2, 3]
    assert column(timed.time_recent(timedelta(days=1)), "value") == []
    both = weather.with_timestamp_columns("time", "month")
    assert column(both.time_after(datetime(2019, 1, 15)).time_before(datetime(2019, 2, 2)), "value") == [2, 3]


def test_a_column_of_times_must_hold_times(weather):
    with pytest.raises(DatasetValidationError, match="'value' are not there or hold no times"):
        weather.with_timestamp_columns("value", validate=True)
    with pytest.raises(DatasetValidationError, match="'city' holds no times but"):
        weather.with_timestamp_columns("city").time_before(datetime(2019, 1, 1)).to_pandas_dataframe()


def test_a_partition_format_must_fit_every_file(store, numbers):
    dataset = Dataset.Tabular.from_delimited_files((store, "numbers"), partition_format="/{year}/{month}/x.csv")
    with pytest.raises(UserErrorException, match=r"partition_format .* does not fit the file"):
        dataset.to_pandas_dataframe()


def test_a_path_without_files_is_refused_when_validated(store):
    with pytest.raises(DatasetValidationError, match="absent"):
        Dataset.Tabular.from_delimited_files((store, "absent.csv"))
    later = Dataset.Tabular.from_delimited_files((store, "absent.csv"), validate=False)
    with pytest.raises(UserErrorException):
        later.to_pandas_dataframe()


def test_a_registered_table_comes_back_with_its_types_and_steps(workspace, store, put):
    put(types="id,day\n007,02.01.2019\n008,03.01.2019\n")
    types = {"id": DataType.to_string(), "day": DataType.to_datetime("%d.%m.%Y")}
    dataset = Dataset.Tabular.from_delimited_files((store, "types"), set_column_types=types)
    dataset.filter(dataset["id"] == "008").register(workspace, "typed")
    found = Dataset.get_by_name(workspace, "typed")
    assert isinstance(found, TabularDataset)
    assert found.to_pandas_dataframe().values.tolist() == [["008", pandas.Timestamp(2019, 1, 3)]]
    assert column(Dataset.get_by_id(workspace, found.id).take(1), "id") == ["008"]


def test_a_frame_is_registered_and_read_again(workspace, store, capsys):
    frame = Frame(
        {"n": [1, 2], "x": [0.5, None], "b": [True, False], "t": ["a", "ü"], 5: pandas.to_datetime(["2019", "2020"])}
    )
    first = Dataset.Tabular.register_pandas_dataframe(frame, (store, "frames"), "frame", tags={"a": "b"})
    assert capsys.readouterr().out.splitlines()[-1] == "Successfully created and registered a new dataset."
    found = first.to_pandas_dataframe()
    assert (list(found.columns), first.tags, first.version) == (["n", "x", "b", "t", "5"], {"a": "b"}, 1)
    assert [dtype.kind for dtype in found.dtypes] == ["i", "f", "b", "O", "M"]
    second = Dataset.Tabular.register_pandas_dataframe(frame, store, "frame", show_progress=False)
    assert (second.version, capsys.readouterr().out) == (2, "")


# In a process of its own: pandas keeps using a pyarrow that it has loaded.
WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
import pandas
from azureml.core import Dataset, Workspace

store = Workspace.get(sys.argv[1]).get_default_datastore()
frame = pandas.DataFrame({"id": ["007", "1"], "n": [0, 1], "day": pandas.to_datetime(["2019-01-01 01:02:03", None])})
found = Dataset.Tabular.register_pandas_dataframe(frame, store, "plain", show_progress=False).to_pandas_dataframe()
assert found["id"].tolist() == ["007", "1"]
assert (found["n"].dtype.kind, found["day"][0]) == ("i", pandas.Timestamp("2019-01-01 01:02:03"))
"""


def test_without_pyarrow_a_frame_is_stored_as_csv_with_its_types(workspace):
    subprocess.run([sys.executable, "-c", WITHOUT_PYARROW, workspace.name], check=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (lambda store: ({"a": 1}, store, "n"), "dataframe must be a pandas DataFrame"),
        (lambda store: (Frame({"a": [1]}), "path", "n"), "target must be"),
        (lambda store: (Frame({"a": [1]}), (store, "../up"), "n"), "below the datastore's root"),
        (lambda store: (Frame({"a": [1]}), store, " "), "name must say"),
        (lambda store: (Frame([[1, 2]], columns=["a", "a"]), store, "n"), "more than one column 'a'"),
        (lambda store: (Frame({"a": [1, "x", b"y"]}), store, "n"), "values of one type"),
    ],
)
def test_frames_that_cannot_be_registered(store, arguments, said):
    with pytest.raises(UserErrorException, match=said):
        Dataset.Tabular.register_pandas_dataframe(*arguments(store), show_progress=False)


def test_a_table_becomes_files(numbers, own_temporary_folder):
    made = numbers.take(2).to_csv_files(separator=";")
    assert (type(made), made.to_path()) == (FileDataset, ["/part-0.csv"])
    assert Path(made.download()[0]).read_text() == "n;half;name\n2;1.0;row 2\n3;1.5;row 3\n"
    (parquet,) = numbers.take(2).to_parquet_files().download()
    assert pandas.read_parquet(parquet)["n"].tolist() == [2, 3]


def test_a_table_is_partitioned_by_values(workspace, store, put):
    put(people="name,city,year\na,Rome,2019\nb,Oslo,2019\nc,Rome,2020\n")
    people = Dataset.Tabular.from_delimited_files((store, "people"))
    made = people.partition_by(["city", "year"], (store, "by city"), name="by city", show_progress=False)
    assert (made.name, made.partition_keys) == ("by city", ["city", "year"])
    assert column(made.filter(made["city"] == "Rome"), "name") == ["a", "c"]
    assert {"city": "Oslo", "year": "2019"} in made.get_partition_key_values()
    put(odd="name,city\na,x/y\nb,..\n")
    odd = Dataset.Tabular.from_delimited_files((store, "odd"))
    for number in (0, 1):
        with pytest.raises(UserErrorException, match="cannot be the name of a folder"):
            odd.skip(number).partition_by("city", (store, "by city"))


def test_a_profile_tells_what_each_column_holds(numbers):
    profile = numbers.get_profile()
    half, name = profile.columns["half"], profile.columns["name"]
    assert (half.min, half.max, half.count, half.missing_count, half.quantiles[0.5]) == (1, 500.5, 1000, 0, 250.75)
    assert (name.min, name.unique_values) == (None, 1000)
    assert list(profile.to_pandas_dataframe().index) == ["n", "half", "name"]


def test_the_files_that_a_column_names_are_fetched(workspace, store, put, tmp_path):
    put(images__a="A", images__b="B", listed="image\nworkspaceblobstore/images/a\nworkspaceblobstore/images/absent\n")
    types = {"image": DataType.to_stream(workspace)}
    listed = Dataset.Tabular.from_delimited_files((store, "listed"), set_column_types=types)
    first, second = listed.download("image", str(tmp_path / "there"))
    assert (Path(first).read_text(), second) == ("A", None)
    with pytest.raises(UserErrorException, match="overwrite=True"):
        listed.download("image", str(tmp_path / "there"))
    with pytest.raises(UserErrorException, match="absent"):
        listed.download("image", str(tmp_path / "elsewhere"), ignore_not_found=False)


def test_old_factories_make_the_datasets_of_today(store, put):
    put(**{"a.tsv": "a\tb\n1\t2\n", "b.csv": "a,b\n1,2\n", "c.jsonl": '{"a": 1}\n'})
    assert [list(Dataset.auto_read_files((store, name)).to_pandas_dataframe().columns) for name in (
        "a.tsv", "b.csv", "c.jsonl")] == [["a", "b"], ["a", "b"], ["a"]]  # fmt: skip
    assert list(Dataset.from_delimited_files((store, "b.csv")).to_pandas_dataframe().columns) == ["a", "b"]
    assert Dataset.from_binary_files((store, "b.csv")).to_path() == ["/b.csv"]


SCRIPT = """
from azureml.core import Dataset, Run

run = Run.get_context()
table = run.input_datasets["numbers"]
frame = table.to_pandas_dataframe()
run.log("rows", len(frame))
run.log("same", int(Dataset.get_by_name(run.experiment.workspace, "numbers").take(3).to_pandas_dataframe()["n"].sum()))
"""


def test_a_script_gets_the_table_itself(workspace, numbers, tmp_path):
    registered = numbers.register(workspace, "numbers")
    run = submit(Experiment(workspace, "tables"), tmp_path / "source", SCRIPT, registered.as_named_input("numbers"))
    assert run.wait_for_completion()["status"] == "Completed"
    assert run.get_metrics() == {"rows": 1000, "same": 9}


def test_a_file_that_is_no_table_is_one_clear_error(store, put):
    put(odd="a,b\n" + "1,2\n" * 300 + '"never closed\n')
    with pytest.raises(DatasetExecutionError, match="odd: A file cannot be read as delimited text"):
        Dataset.Tabular.from_delimited_files((store, "odd")).to_pandas_dataframe()
