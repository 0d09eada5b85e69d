import base64
import json

import numpy
import pytest

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.scorers import onnx


def _raw(values, dtype):
    return base64.b64encode(numpy.array(values, dtype).tobytes()).decode()


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        ({"dims": ["1", "2"], "dataType": 1, "rawData": _raw([1, 2], "<f4")}, numpy.array([[1, 2]], "float32")),
        ({"dims": [2], "dataType": "INT64", "int64Data": ["7", "8"]}, numpy.array([7, 8], "int64")),
        ({"dims": [2], "dataType": 11, "doubleData": [0.5, 1]}, numpy.array([0.5, 1], "float64")),
        ({"dims": [2], "dataType": 2, "int32Data": [0, 255]}, numpy.array([0, 255], "uint8")),
        ({"dims": [1], "dataType": 9, "int32Data": [1]}, numpy.array([True])),
        ({"dims": [1], "dataType": 10, "int32Data": [0x3C00]}, numpy.array([1], "float16")),
        ({"dims": [], "dataType": 7, "rawData": _raw(3, "<i8")}, numpy.array(3, "int64")),
    ],
)
def test_a_tensor_is_read_by_its_own_type_and_shape(tensor, expected):
    (array,) = onnx.read_inputs({"x": tensor}, ["x"])
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    assert (array == expected).all()


def test_texts_are_bytes_in_base64():
    text = base64.b64encode("ä".encode()).decode()
    (array,) = onnx.read_inputs({"x": {"dims": [1], "dataType": 8, "stringData": [text]}}, ["x"])
    assert array.tolist() == ["ä"]
    _, _, body = onnx.write_outputs({"y": array})
    assert json.loads(body) == {"outputs": {"y": {"dims": ["1"], "dataType": 8, "stringData": [text]}}}


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        ({"dims": [3], "dataType": 1, "rawData": _raw([1, 2], "<f4")}, "cannot reshape"),
        ({"dims": [-2], "dataType": 1, "floatData": [1]}, "a size is below zero"),
        ({"dims": [2], "dataType": 1}, "neither rawData nor floatData is there"),
        ({"dims": [1], "dataType": 1, "rawData": "!"}, "cannot be read as FLOAT"),
        ({"dims": [1], "dataType": 8, "rawData": ""}, "send stringData"),
        ({"dims": [1], "dataType": 99}, "it must be one of 1 (FLOAT)"),
        ({"dims": [1], "dataType": [1]}, "it must be one of 1 (FLOAT)"),
        ({"dims": 7, "dataType": 1, "floatData": [1]}, "cannot be read as FLOAT"),
        ({"dims": [10**30], "dataType": 1, "floatData": [1]}, "cannot be read as FLOAT"),
    ],
)
def test_a_tensor_that_does_not_fit_itself_is_refused_with_the_reason(tensor, words):
    with pytest.raises(Refused) as refusal:
        onnx.read_inputs({"x": tensor}, ["x"])
    assert refusal.value.status == 400
    assert words in refusal.value.message


def test_a_tensor_goes_out_as_it_would_come_in():
    sent = numpy.array([[1.5, float("nan")]], "float32")
    _, _, body = onnx.write_outputs({"y": sent})
    (again,) = onnx.read_inputs(json.loads(body)["outputs"], ["y"])
    numpy.testing.assert_array_equal(again, sent)
