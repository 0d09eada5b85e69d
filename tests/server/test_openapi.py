"""The OpenAPI of the service is the file in docs/, so that a change of the wire is seen in review."""

import json
import os
import re
from pathlib import Path

import pytest

from runyard.server.api.records import WholeRun
from runyard.server.api.secrets import NewSecret
from runyard.server.app import PREFIX, ROOT_ROUTERS, ROUTERS
from runyard.server.http import openapi
from runyard.server.http.openapi import field_descriptions
from runyard.server.http.routes import Media
from runyard.serving.deployments.records import EndpointRecord

GOLDEN = Path(__file__).parents[2] / "docs" / "openapi.json"
WRITE_ANEW = "RUNYARD_WRITE_GOLDEN"
ROUTES = [route for routes in (*ROUTERS, *ROOT_ROUTERS) for route in routes.all]


@pytest.fixture(scope="module")
def made() -> bytes:
    return openapi.openapi_text(ROUTERS, PREFIX, ROOT_ROUTERS)


def test_the_file_in_docs_is_what_the_service_gives(made: bytes) -> None:
    if os.environ.get(WRITE_ANEW):
        GOLDEN.write_bytes(made)
    assert made.decode() == GOLDEN.read_text(encoding="utf-8"), (
        "The wire has changed. Whoever changes it runs `make openapi`, reads the diff of docs/openapi.json and commits"
        " it with the change, after a merge too."
    )


def test_the_service_gives_it_behind_its_token(client, made: bytes) -> None:
    assert client.ask("GET", "/api/v1/openapi.json").body == made
    assert client.with_token("wrong").ask("GET", "/api/v1/openapi.json").status == 401


def test_every_operation_has_an_id_of_its_own_a_text_and_the_shape_of_its_errors(made: bytes) -> None:
    told = json.loads(made)
    assert told["openapi"].startswith("3.1")
    operations = [one for path in told["paths"].values() for one in path.values()]
    assert len({one["operationId"] for one in operations}) == len(operations) == len(ROUTES)
    for one in operations:
        assert one["description"], one["operationId"]
        assert one["responses"]["default"] == {"$ref": "#/components/responses/Error"}
    schemas = told["components"]["schemas"]
    assert list(schemas["ErrorAnswer"]["properties"]) == ["code", "problem", "hint", "facts"]


def test_every_body_has_an_example(made: bytes) -> None:
    """Of one field at least, where any can be given."""
    told = json.loads(made)["components"]["schemas"]
    bodies = {model.__name__ for route in ROUTES for model in route.models[:1] if hasattr(model, "model_fields")}
    bare = {
        name
        for name in bodies & told.keys()
        if any(field.get("type") != "boolean" for field in told[name].get("properties", {}).values())
        and not any("examples" in field or "default" in field for field in told[name]["properties"].values())
    }
    assert bare == set()


def test_an_answer_is_a_model_or_bytes_that_are_described() -> None:
    for route in ROUTES:
        assert route.answers is None or not isinstance(route.answers, Media) or route.answers.about, route.path
        assert route.answers is not None or route.status == 204, route.path


def test_what_stands_below_a_field_describes_it(made: bytes) -> None:
    notes = field_descriptions(EndpointRecord)
    assert notes["port"] == "Null until it has one, as are the addresses."
    assert field_descriptions(NewSecret) == {}
    assert field_descriptions(WholeRun)["metrics"] == "The last value of each, where they were asked for."
    told = json.loads(made)["components"]["schemas"]["EndpointRecord"]["properties"]
    assert told["port"]["description"] == notes["port"]


WIRE_PAGE = GOLDEN.parent / "wire.md"
NAMED = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`? ]*)")


def test_the_page_of_the_wire_names_routes_that_there_are() -> None:
    known = [(route.method, route.path) for route in ROUTES]
    for method, path in NAMED.findall(WIRE_PAGE.read_text(encoding="utf-8")):
        pattern = re.compile(re.sub(r"\b[A-Z]+\b", r"[{]\\w+(:\\w+)?[}]", path) + "$")
        assert any(method == one and pattern.fullmatch(other) for one, other in known), f"{method} {path}"


def test_the_page_of_the_wire_leaves_routes_bodies_and_answers_to_the_openapi() -> None:
    assert "| route |" not in WIRE_PAGE.read_text(encoding="utf-8")
