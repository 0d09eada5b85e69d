"""A large CSV file read as a table, beside what pandas needs for the same file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROWS = 16_000_000 if os.environ.get("RUNYARD_FAULTS") == "full" else 600_000
PEAK = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
BY_PANDAS = "import sys, pandas; frame = pandas.read_csv(sys.argv[1], engine='c'); frame['n'].sum(); " + PEAK
AS_TABLE = """
import sys
from azureml.data._tables.formats import DelimitedReader
from azureml.data._tables.reader import Problems
from azureml.data._tabular_format import delimited_format

reader = DelimitedReader(delimited_format(), Problems())
reader.settled(reader.read(sys.argv[1]))["n"].sum()
"""


def peak_of(code: str, path: Path) -> int:
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=900, check=True)
    return int(done.stdout)


def test_a_table_needs_little_more_memory_than_pandas_itself(tmp_path):
    path = tmp_path / "large.csv"
    block = "".join(
        f"{n},{n % 2},{n * 1.37:.3f},2019-{n % 12 + 1:02}-{n % 28 + 1:02} 10:{n % 60:02}:00,name {n},city {n % 50}\n"
        for n in range(100_000)
    )
    with path.open("w") as sink:
        sink.write("n,flag,price,time,name,city\n")
        for _ in range(ROWS // 100_000):
            sink.write(block)
    try:
        assert peak_of(AS_TABLE + PEAK, path) < 1.25 * peak_of(BY_PANDAS, path)
    finally:
        path.unlink()
