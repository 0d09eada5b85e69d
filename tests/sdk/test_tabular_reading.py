"""Files read as tables: names, types and nulls as SDK v1 gives them."""

import gzip
import warnings
from pathlib import Path
from typing import Any

import pandas
import pytest

from azureml.data import DataType
from azureml.data._tables.formats import DelimitedReader, JsonLinesReader, ParquetReader
from azureml.data._tables.reader import Problems
from azureml.data._tabular_format import delimited_format, json_lines_format, parquet_format
from azureml.data.dataset_error_handling import DatasetExecutionError
from azureml.data.dataset_factory import PromoteHeadersBehavior
from azureml.exceptions import UserErrorException

Frame = pandas.DataFrame


def read(reader: Any, *paths: Path) -> Frame:
    frames = [frame for frame in (reader.read(str(path)) for path in paths) if frame is not None]
    return reader.settled(pandas.concat(frames, ignore_index=True, sort=False) if len(frames) > 1 else frames[0])


def delimited(folder: Path, *texts: str, on_error: str = "null", **settings: Any) -> Frame:
    paths = [folder / f"{number}.csv" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return read(DelimitedReader(delimited_format(**settings), Problems(on_error)), *paths)


def values(frame: Frame, column: str) -> list[Any]:
    return [None if pandas.isna(value) else value for value in frame[column].tolist()]


def test_types_are_those_that_the_first_rows_show(tmp_path):
    frame = delimited(
        tmp_path,
        "flag,one,whole,part,truth,day,moment,zoned,us,eu,text\n"
        "0,1,5,1.5,true,2019-01-02,2019-01-02 03:04:05,2019-01-02T03:04:05Z,1/13/2019,13/1/2019,NA\n"
        "1,1,-2,2,False,2019-01-03,2019-01-03 03:04:05.5,2019-01-02T03:04:05+02:00,1/14/2019,14/1/2019,null\n",
    )
    kinds = dict(zip(frame.columns, (dtype.kind for dtype in frame.dtypes), strict=True))
    assert kinds == {
        "flag": "b", "one": "b", "whole": "i", "part": "f", "truth": "b", "day": "M", "moment": "M", "zoned": "M",
        "us": "M", "eu": "M", "text": "O",
    }  # fmt: skip
    assert frame["zoned"].tolist() == [pandas.Timestamp("2019-01-02 03:04:05"), pandas.Timestamp("2019-01-02 01:04:05")]
    assert (
        frame["us"].tolist() == frame["eu"].tolist() == [pandas.Timestamp(2019, 1, 13), pandas.Timestamp(2019, 1, 14)]
    )
    assert frame["moment"][1] == pandas.Timestamp("2019-01-03 03:04:05.500")
    assert (str(frame["day"].dtype), values(frame, "text")) == ("datetime64[ns]", ["NA", "null"])


def test_one_column_may_write_its_times_in_several_ways(tmp_path):
    frame = delimited(
        tmp_path, "t\n2019-05-01\n2020-05-01 10:00:00\n2021-05-01T10:00:00Z\n 2021-05-01T10:00:00.5+02:00 \n"
    )
    expected = ["2019-05-01", "2020-05-01 10:00", "2021-05-01 10:00", "2021-05-01 08:00:00.5"]
    assert frame["t"].tolist() == [pandas.Timestamp(text) for text in expected]


def test_empty_values_are_null_in_every_type(tmp_path):
    frame = delimited(tmp_path, "flag,whole,truth,day,text\n1,5,true,2019-01-02,a\n,,,,\n")
    assert [values(frame, name) for name in frame] == [
        [True, None], [5.0, None], [True, None], [pandas.Timestamp(2019, 1, 2), None], ["a", None]
    ]  # fmt: skip
    kept = delimited(tmp_path, "whole,text\n5,a\n,\n", empty_as_string=True)
    assert (values(kept, "whole"), values(kept, "text")) == ([5.0, None], ["a", ""])


def test_values_of_another_type_further_down_become_null_and_are_told(tmp_path):
    rows = "".join(f"{number},2019-01-01,{number % 2}\n" for number in range(250))
    text = "number,day,flag\n" + rows + "abc,zz,7\n"
    problems = Problems()
    (tmp_path / "a.csv").write_text(text)
    frame = read(DelimitedReader(delimited_format(), problems), tmp_path / "a.csv")
    assert (values(frame, "number")[-1], values(frame, "day")[-1]) == (None, None)
    assert frame["flag"].dtype.kind == "i", "other numbers make it a column of numbers: nothing is lost"
    with pytest.warns(UserWarning, match="1 value.s. of column 'day' are no datetime, such as 'zz'.*'number'.*'abc'"):
        problems.warn()
    with pytest.raises(DatasetExecutionError, match="column 'number' cannot be read as number, such as 'abc'"):
        delimited(tmp_path, text, on_error="fail")


@pytest.mark.parametrize("further", ["007", "1.50", "TRUE", "", "1e3", "2019-01-01"])
def test_texts_are_kept_as_written_where_whole_parts_of_a_file_look_like_something_else(tmp_path, further):
    count, others = 40_000, "," * 63  # pandas finds the types of so many columns anew every 16,384 rows
    rows = [f"x,true{others}"] * 300 + [f"{further},{further}{others}"] * count + [f"x,true{others}"]
    frame = delimited(tmp_path, "\n".join([f"text,truth{others}", *rows, ""]))
    assert values(frame, "text") == ["x"] * 300 + [further or None] * count + ["x"]
    truth = {"TRUE": True}.get(further)
    assert values(frame, "truth") == [True] * 300 + [truth] * count + [True]


def test_no_word_is_said_where_all_is_well(tmp_path):
    problems = Problems()
    (tmp_path / "a.csv").write_text("a,b\n1,nan\n 2 ,3.5\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = read(DelimitedReader(delimited_format(), problems), tmp_path / "a.csv")
        problems.warn()
    assert (values(frame, "a"), values(frame, "b")) == ([1, 2], [None, 3.5])


def test_given_types_win(tmp_path):
    types = {
        "a": DataType.to_string(), "b": DataType.to_bool(), "c": DataType.to_long(), "d": DataType.to_float(","),
        "e": DataType.to_datetime(["%Y/%d/%m", "%d.%m.%Y"]),
    }  # fmt: skip
    text = 'a,b,c,d,e\n007,yes,1,"1.000,5",2019/13/01\n1,no,1.5,"2,5",02.01.2019\n,1,3,x,bad\n'
    frame = delimited(tmp_path, text, set_column_types=types)
    assert [values(frame, name) for name in frame] == [
        ["007", "1", None], [True, False, True], [1.0, None, 3.0], [1000.5, 2.5, None],
        [pandas.Timestamp(2019, 1, 13), pandas.Timestamp(2019, 1, 2), None],
    ]  # fmt: skip
    with pytest.raises(UserErrorException, match=r"in no form that can be told.*DataType.to_datetime"):
        delimited(tmp_path, text, set_column_types={"e": DataType.to_datetime()})


def test_without_inference_all_is_text(tmp_path):
    frame = delimited(tmp_path, "a,b\n1,2019-01-01\n", infer_column_types=False)
    assert frame.to_dict("list") == {"a": ["1"], "b": ["2019-01-01"]}


def test_odd_headers_get_names(tmp_path):
    frame = delimited(tmp_path, ' s p ,ünï,,"q,c",a,a\n1,2,3,4,5,6\n')
    assert list(frame.columns) == ["s p", "ünï", "Column3", "q,c", "a", "a_1"]


@pytest.mark.parametrize("before", [0, 300], ids=["at once", "after the first rows"])
def test_rows_that_are_too_long_or_too_short_lose_nothing(tmp_path, before):
    frame = delimited(tmp_path, "a,b\n" + "1,2\n" * before + "1,2\n3\n4,5,6\n7,8,9,10\n")
    assert list(frame.columns) == ["a", "b", "Column3", "Column4"]
    assert [values(frame, name)[-1] for name in ("a", "b")] == [7, 8]
    assert [str(int(float(values(frame, name)[-1]))) for name in ("Column3", "Column4")] == ["9", "10"]
    assert values(frame, "b")[-3] is None


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        ("ALL_FILES_HAVE_SAME_HEADERS", {"x": [1, 3], "y": [2, 4]}),
        ("COMBINE_ALL_FILES_HEADERS", {"x": [True, None], "y": [2, 3], "z": [None, 4.0]}),
        ("ONLY_FIRST_FILE_HAS_HEADERS", {"x": [1, None, 3], "y": [2, None, 4]}),
        ("NO_HEADERS", {"Column1": ["x", "1", "y", "3"], "Column2": ["y", "2", "z", "4"]}),
    ],
)
def test_headers_of_several_files(tmp_path, behaviour, expected):
    frame = delimited(tmp_path, "x,y\n1,2\n", "y,z\n3,4\n", header=PromoteHeadersBehavior[behaviour])
    assert {name: values(frame, name) for name in frame} == expected


def test_blank_lines_quotes_and_line_breaks_in_values(tmp_path):
    frame = delimited(tmp_path, '\n\na;b\n\n"x\ny";"say ""hi"";"\n\n', separator=";", support_multi_line=True)
    assert frame.to_dict("list") == {"a": ["x\ny"], "b": ['say "hi";']}


def test_encodings_and_packed_files(tmp_path):
    (tmp_path / "w.csv").write_bytes("a\nÄpfel €\n".encode("cp1252"))
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbfa\nx\n")
    (tmp_path / "z.csv.gz").write_bytes(gzip.compress("a\nÄ\n".encode()))
    reader = DelimitedReader(delimited_format(encoding="windows1252"), Problems())
    assert values(read(reader, tmp_path / "w.csv"), "a") == ["Äpfel €"]
    reader = DelimitedReader(delimited_format(), Problems())
    assert values(read(reader, tmp_path / "b.csv", tmp_path / "z.csv.gz"), "a") == ["x", "Ä"]
    with pytest.raises(DatasetExecutionError, match=r"not written in utf8.*encoding="):
        read(DelimitedReader(delimited_format(), Problems()), tmp_path / "w.csv")


def test_files_that_are_no_tables_are_one_clear_error(tmp_path):
    (tmp_path / "quote.csv").write_text("a,b\n" + "1,2\n" * 300 + '"never closed,3\n')
    (tmp_path / "x.parquet").write_bytes(b"no parquet")
    for reader, name in (
        (DelimitedReader(delimited_format(), Problems()), "quote.csv"),
        (ParquetReader(parquet_format(), Problems()), "x.parquet"),
    ):
        with pytest.raises(DatasetExecutionError, match="cannot be read as"):
            read(reader, tmp_path / name)


def test_parquet_keeps_its_types_and_gives_the_wanted_columns(tmp_path):
    made = pandas.DataFrame({"n": [1, 2], "t": ["a", None], "d": pandas.to_datetime(["2019-01-01", None], utc=True)})
    made.to_parquet(tmp_path / "a.parquet")
    frame = read(ParquetReader(parquet_format({"n": DataType.to_string()}), Problems()), tmp_path / "a.parquet")
    assert (values(frame, "n"), values(frame, "t")) == (["1", "2"], ["a", None])
    assert (str(frame["d"].dtype), frame["d"][0]) == ("datetime64[ns]", pandas.Timestamp(2019, 1, 1))
    some = read(ParquetReader(parquet_format(), Problems(), {"t"}), tmp_path / "a.parquet")
    assert list(some.columns) == ["t"]


def test_json_lines_keep_what_lies_deeper(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": 1, "b": {"c": [1]}}\n\n{"a": 2, "d": "x"}\n')
    frame = read(JsonLinesReader(json_lines_format(), Problems()), tmp_path / "a.jsonl")
    assert {name: values(frame, name) for name in frame} == {"a": [1, 2], "b": [{"c": [1]}, None], "d": [None, "x"]}


@pytest.mark.parametrize("line", ["not json", "5", "[1]", '{"a": 1', "[" * 100000], ids=lambda line: line[:9])
def test_a_line_that_is_no_json_object_is_named_or_dropped(tmp_path, line):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n' + line + '\n{"a": 2}\n')
    with pytest.raises(DatasetExecutionError, match=r"Line 2 is no JSON object.*invalid_lines='drop'"):
        read(JsonLinesReader(json_lines_format(), Problems()), tmp_path / "a.jsonl")
    frame = read(JsonLinesReader(json_lines_format("drop"), Problems()), tmp_path / "a.jsonl")
    assert frame.to_dict("list") == {"a": [1, 2]}


@pytest.mark.parametrize("zone", ["", "Z"])
def test_a_date_with_hours_alone_is_no_time(tmp_path, zone):
    problems = Problems()
    (tmp_path / "a.csv").write_text("t\n" + f"2019-01-02 03:04{zone}\n" * 250 + f"2019-01-02 03{zone}\n")
    frame = read(DelimitedReader(delimited_format(), problems), tmp_path / "a.csv")
    assert values(frame, "t") == [pandas.Timestamp(2019, 1, 2, 3, 4)] * 250 + [None]
    with pytest.warns(UserWarning, match=f"column 't' are no datetime, such as '2019-01-02 03{zone}'"):
        problems.warn()


def test_times_are_read_to_the_nanosecond_and_to_the_ends_of_their_range(tmp_path):
    ends = ["1677-09-22 00:00:00", "2262-04-11 23:47:16.854775807", "2019-01-02T03:04:05.123456789"]
    frame = delimited(tmp_path, "\n".join(["t", *ends, ""]))
    assert frame["t"].tolist() == [pandas.Timestamp(text) for text in ends]


def test_times_that_pandas_cannot_hold(tmp_path):
    text = "t\n2019-01-01\n0001-01-01\n"
    assert values(delimited(tmp_path, text), "t") == [pandas.Timestamp(2019, 1, 1), None]
    reader = DelimitedReader(delimited_format(), Problems(out_of_range_datetime="error"))
    with pytest.raises(DatasetExecutionError, match="'0001-01-01' in column 't' is outside"):
        reader.read(str(tmp_path / "0.csv"))
    for settings in ({"on_error": "skip"}, {"out_of_range_datetime": "skip"}):
        with pytest.raises(UserErrorException, match="must be 'null' or"):
            Problems(**settings)
