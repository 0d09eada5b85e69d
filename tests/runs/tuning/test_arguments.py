import argparse
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.runs.kinds.sweep.sampling.arguments import child_arguments


@pytest.mark.parametrize(
    ("base", "values", "expected"),
    [
        ([], {"lr": 0.1}, ["--lr", "0.1"]),
        ([], {"--lr": 0.1, "-b": 32}, ["--lr", "0.1", "-b", "32"]),
        (["--epochs", "3"], {"lr": 0.1}, ["--epochs", "3", "--lr", "0.1"]),
        (["--lr", "1", "--epochs", "3"], {"lr": 0.1}, ["--epochs", "3", "--lr", "0.1"]),
        (["--lr", "1", "--epochs", "3"], {"--lr": 0.1}, ["--epochs", "3", "--lr", "0.1"]),
        (["--lr=1", "--epochs=3"], {"lr": 0.1}, ["--epochs=3", "--lr", "0.1"]),
        (["--lr", "-0.5", "data"], {"lr": 0.1}, ["data", "--lr", "0.1"]),
        (["--lr", "-.5"], {"lr": 0.1}, ["--lr", "0.1"]),
        (["--lr", "-"], {"lr": 0.1}, ["--lr", "0.1"]),
        (["--flag", "--epochs", "3"], {"flag": "yes"}, ["--epochs", "3", "--flag", "yes"]),
        (["--lr", "1", "--lr", "2", "--lr=3"], {"lr": 4}, ["--lr", "4"]),
        (["--lr-decay", "1", "--l", "2"], {"lr": 4}, ["--lr-decay", "1", "--l", "2", "--lr", "4"]),
        (["--note", "--lr is high"], {"lr": 4}, ["--note", "--lr is high", "--lr", "4"]),
        (["--lr"], {"lr": 4}, ["--lr", "4"]),
        (["-lr", "1"], {"lr": 4}, ["-lr", "1", "--lr", "4"]),
        (["--epochs", 3], {"lr": 4}, ["--epochs", "3", "--lr", "4"]),
    ],
)
def test_sampled_values_stand_at_the_end_in_the_place_of_older_ones(
    base: list[str], values: dict[str, Any], expected: list[str]
) -> None:
    assert child_arguments(base, values) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("adam", "adam"),
        ("", ""),
        ("two words", "two words"),
        (3, "3"),
        (2**70, str(2**70)),
        (0.1, "0.1"),
        (1e-05, "1e-05"),
        (0.30000000000000004, "0.30000000000000004"),
        (5.0, "5.0"),
        (1e22, "1e+22"),
        (-1e-05, "-0.00001"),
        (-2.5e21, "-2500000000000000000000"),
        (True, "True"),
        (None, "None"),
        ([64, 32], "[64, 32]"),
        ({"units": 8, "name": "é"}, '{"units": 8, "name": "\\u00e9"}'),
        ([True, None], "[true, null]"),
    ],
)
def test_a_value_is_written_as_a_script_expects_it(value: Any, text: str) -> None:
    assert child_arguments((), {"x": value}) == ["--x", text]


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_comes_back_from_argparse_as_it_was(value: float) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--x", type=float)
    read = parser.parse_args(child_arguments((), {"x": value})).x
    assert read == value
    assert math.copysign(1, read) == math.copysign(1, value)


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_a_list_comes_back_from_json_as_it_was(value: Any) -> None:
    (_, text) = child_arguments((), {"x": [value]})
    assert json.loads(text) == [value]
