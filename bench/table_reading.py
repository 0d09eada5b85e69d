"""A CSV file of the default datastore read as a typed table, beside pandas told which column holds times."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas

from bench.home import open_home
from bench.measuring import Bar, Measurement, Subject, interleaved, median, seconds_of, spread_of

BLOCKS, BLOCK_ROWS, REPEATS = 13, 100_000, 5
BAR = Bar("at most 1.5 x floor + 0.5 s", lambda value, floor: value <= 1.5 * floor + 0.5)


def measure() -> Iterator[Measurement]:
    from azureml.core import Dataset

    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder, open_home() as home:
        path = Path(folder, "table.csv")
        _write(path)
        store = home.workspace.get_default_datastore()
        store.upload_files([str(path)], target_path="table", show_progress=False)
        table = Dataset.Tabular.from_delimited_files((store, "table/table.csv"))
        kinds = [dtype.kind for dtype in table.to_pandas_dataframe().dtypes]
        assert kinds == ["i", "b", "f", "M", "O", "O"], kinds
        subjects: dict[str, Subject] = {
            "floor": seconds_of(lambda: pandas.read_csv(path, parse_dates=["time"])),
            "ours": seconds_of(table.to_pandas_dataframe),
        }
        taken = interleaved(subjects, REPEATS)
    yield Measurement(
        "table of a 74 MB CSV file",
        median(taken["ours"]),
        "s",
        BAR,
        median(taken["floor"]),
        spread_of(taken["ours"]),
    )


def _write(path: Path) -> None:
    block = "".join(
        f"{n},{n % 2},{n * 1.37:.3f},2019-{n % 12 + 1:02}-{n % 28 + 1:02} 10:{n % 60:02}:00,name {n},city {n % 50}\n"
        for n in range(BLOCK_ROWS)
    )
    with path.open("w") as sink:
        sink.write("n,flag,price,time,name,city\n")
        for _ in range(BLOCKS):
            sink.write(block)
