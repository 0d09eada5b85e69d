import json

import numpy
import pytest

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.scorers import tensors


@pytest.mark.parametrize("body", [{"inputs": {"a": [1], "b": [2]}}, {"inputs": [[1], [2]]}])
def test_inputs_come_by_name_or_in_order(body):
    assert tensors.read_values(body, ["a", "b"]) == {"a": [1], "b": [2]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, 'either "data" or "inputs"'),
        ({"data": 1, "inputs": 1}, 'either "data" or "inputs"'),
        ({"data": 1}, "The model has 2 inputs"),
        ({"inputs": {"a": 1}}, "must name a, b"),
        ({"inputs": {"a": 1, "b": 2, "c": 3}}, "must name a, b"),
        ({"inputs": [1]}, "must name a, b"),
        ({"inputs": None}, "must name a, b"),
    ],
)
def test_other_inputs_are_refused(body, words):
    with pytest.raises(Refused) as refusal:
        tensors.read_values(body, ["a", "b"])
    assert words in refusal.value.message


@pytest.mark.parametrize("value", ["a", [[1], [1, 2]], [None], {"a": 1}, [["a"]]])
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_what_makes_no_array_of_numbers_is_refused(value, dtype):
    with pytest.raises(Refused, match="Input x"):
        tensors.array_of("x", value, dtype)


def test_nan_is_a_number_and_null_is_none():
    assert numpy.isnan(tensors.array_of("x", [float("nan")], "float32")).all()
    with pytest.raises(Refused, match="null is no number"):
        tensors.array_of("x", [1.0, None], "float32")


def test_a_shape_fits_where_its_numbers_do():
    tensors.check_shape("x", numpy.ones((5, 2)), ["rows", 2])
    with pytest.raises(Refused, match=r"has the shape \[5, 2\]; the model takes \[\?, 3\]"):
        tensors.check_shape("x", numpy.ones((5, 2)), [None, 3])


def test_outputs_of_any_structure_are_written():
    value = {"a": [numpy.array([1.5, float("inf")]), (numpy.float32(2),)], 1: "text"}
    status, headers, body = tensors.write_outputs(value)
    assert (status, headers) == (200, None)
    assert json.loads(body) == {"outputs": {"a": [[1.5, float("inf")], [2.0]], "1": "text"}}


def test_the_sample_of_a_schema_has_the_models_own_shape():
    facts = tensors.schema(["x"], {"x": [None, 3]}, {"x": "int64"})
    assert facts["sample_input"] == {"data": [[0, 0, 0]]}
    assert "sample_input" not in tensors.schema(["x"], {"x": [None, 1000]})
