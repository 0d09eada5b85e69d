"""Scoring scripts with the real inference-schema, NumPy, pandas and Flask, on an old Python and on this one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import interpreters
from tests.sdk.test_scoring_worker import sdk_test_module

pytestmark = pytest.mark.frameworks
driver = sdk_test_module("scoring_worker")

SCHEMA_SCRIPT = """
import numpy as np
import pandas as pd
from inference_schema.parameter_types.numpy_parameter_type import NumpyParameterType
from inference_schema.parameter_types.pandas_parameter_type import PandasParameterType
from inference_schema.parameter_types.standard_py_parameter_type import StandardPythonParameterType
from inference_schema.schema_decorators import input_schema, output_schema

def init():
    pass

@input_schema("data", NumpyParameterType(np.array([[1.0, 2.0]])))
@input_schema("frame", PandasParameterType(pd.DataFrame({"a": [1], "b": ["x"]})))
@input_schema("nested", StandardPythonParameterType({"n": StandardPythonParameterType(1),
                                                     "deep": NumpyParameterType(np.array([1]))}))
@output_schema(NumpyParameterType(np.array([1.0])))
def run(data, frame, nested, factor=1):
    if nested["n"] == 13:
        raise ValueError("unlucky")
    return {"sums": data.sum(axis=1) * factor, "columns": list(frame.columns), "deep": nested["deep"] + 1,
            "one": np.float32(1.5)}
"""
GOOD = '{"data": [[1, 2], [3, 4]], "frame": [{"a": 1, "b": "y"}], "nested": {"n": 1, "deep": [4]}}'

FLASK_SCRIPT = """
from azureml.contrib.services.aml_request import AMLRequest, rawhttp
from azureml.contrib.services.aml_response import AMLResponse

def init():
    pass

@rawhttp
def run(request):
    import flask
    assert isinstance(request, flask.Request) and isinstance(request, AMLRequest)
    if request.files:
        return len(request.files["image"].read())
    if request.method == "GET":
        return flask.jsonify(path=flask.request.path, of=request.args["of"])
    return AMLResponse(request.get_json(), 201, {"X-Seen": "yes"}, json_str=True)
"""
FORM = b'--cut\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n\xff\r\n\n\r\n--cut--\r\n'


@pytest.fixture(scope="module", params=[(3, 7), sys.version_info[:2]], ids=lambda version: ".".join(map(str, version)))
def python(request, tmp_path_factory) -> Path:
    """An interpreter of an environment with the packages that a scoring script of v1 usually has."""
    scratch = tmp_path_factory.mktemp("schemas")
    interpreter = scratch / "environment" / "bin" / "python"
    variables = {**os.environ, "TMPDIR": str(scratch)}  # uv leaves locks there
    packages = ["inference-schema", "numpy", "pandas", "flask"]
    for words in (
        ["venv", "--python", interpreters()[request.param], scratch / "environment"],
        ["pip", "install", "--python", interpreter, *packages],
    ):
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "--quiet", *words], check=True, env=variables, timeout=600)
    return interpreter


@pytest.fixture(scope="module")
def decorated(python):
    with driver.Worker(SCHEMA_SCRIPT, python=str(python)) as worker:
        worker.facts = worker.ready()
        yield worker


def test_the_body_becomes_the_parameters_in_their_types(decorated) -> None:
    answer = decorated.ask(GOOD)
    assert (answer.status, answer.json) == (200, {"sums": [3, 7], "columns": ["a", "b"], "deep": [5], "one": 1.5})


def test_a_parameter_with_a_default_may_be_given(decorated) -> None:
    assert decorated.ask(GOOD[:-1] + ', "factor": 10}').json["sums"] == [30, 70]


def test_the_schema_and_the_samples_are_told(decorated) -> None:
    schema = decorated.facts["schema"]
    assert schema["sample_input"] == {
        "data": [[1.0, 2.0]],
        "frame": [{"a": 1, "b": "x"}],
        "nested": {"n": 1, "deep": [1]},
    }
    assert schema["input"]["required"] == ["data", "frame", "nested"]
    assert schema["input"]["properties"]["data"]["items"]["items"]["type"] == "number"
    assert (schema["output"]["type"], schema["sample_output"]) == ("array", [1.0])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("nope", "not JSON"),
        ("\ud800", "not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"data": [[1, 2]]}', "lacks 'frame', 'nested'"),
        (GOOD[:-1] + ', "odd": 1}', "'odd', which is no parameter"),
        (GOOD.replace("[[1, 2], [3, 4]]", "[[1, 2, 3]]"), "size 3 on dimension #1"),
        (GOOD.replace("[[1, 2], [3, 4]]", '[[1, "x"]]'), "could not convert string"),
        (GOOD.replace('[{"a": 1, "b": "y"}]', "3"), "unable to convert"),
        (GOOD.replace('{"n": 1, "deep": [4]}', "[]"), "Invalid input data type"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_schemas_own_words(decorated, body: str, said: str) -> None:
    answer = decorated.ask(body.encode("utf-8", "surrogatepass"))
    assert answer.status == 400
    assert said in answer.json["message"]


def test_an_error_of_the_script_itself_is_no_fault_of_the_client(decorated) -> None:
    answer = decorated.ask(GOOD.replace('"n": 1', '"n": 13'))
    assert (answer.status, answer.json) == (500, {"message": "ValueError: unlucky"})


def test_a_raw_script_gets_flasks_own_request(python) -> None:
    head = driver.head
    with driver.Worker(FLASK_SCRIPT, python=str(python)) as worker:
        worker.ready()
        seen = worker.ask(b"", head("GET", "/score", "of=x"))
        assert (seen.status, seen.json) == (200, {"path": "/score", "of": "x"})
        made = worker.ask(b'{"a": 1}', head(Content_Type="application/json"))
        assert (made.status, made.json, made.headers["X-Seen"]) == (201, {"a": 1}, "yes")
        assert worker.ask(b"{", head(Content_Type="application/json")).status == 400
        assert worker.ask(FORM, head(Content_Type="multipart/form-data; boundary=cut")).json == 4
