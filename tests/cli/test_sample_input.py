from typing import Any

import pytest

from runyard.cli.web_services.deploy import service_name_for
from runyard.cli.web_services.request import sample_from
from runyard.core.names import check_asset_name
from runyard.core.records.assets import AssetKind

ROW = {"type": "array", "items": {"type": "number"}, "minItems": 3}


@pytest.mark.parametrize(
    ("schema", "sample"),
    [
        ({}, None),
        ({"input": {}}, None),
        ({"sample_input": {"data": [1]}, "input": {"type": "string"}}, {"data": [1]}),
        ({"input": {"type": "object", "properties": {"data": ROW}}}, {"data": [0.0, 0.0, 0.0]}),
        ({"input": {"type": "object", "properties": {"a": {}, "b": ROW}, "required": ["a"]}}, {"a": None}),
        ({"input": {"type": "object", "properties": {"a": {"example": 7}}}}, {"a": 7}),
        ({"input": {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "null"}]}}}, [""]),
        ({"input": {"type": "string", "enum": ["predict", "transform"]}}, "predict"),
    ],
)
def test_a_sample_fits_the_schema(schema: dict[str, Any], sample: object) -> None:
    assert sample_from(schema) == sample


@pytest.mark.parametrize("model", ["iris", "Iris_2 final", "7up", "x", "---", "A" * 80, "žluťoučký"])
def test_the_name_made_for_a_web_service_is_a_valid_one(model: str) -> None:
    check_asset_name(AssetKind.WEB_SERVICE, service_name_for(model))
