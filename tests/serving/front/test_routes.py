from dataclasses import replace
from pathlib import Path

from runyard.core.records.web_services import Scorer, ServedModel
from runyard.serving.gateway.http.routes import RouteKind, ServiceRoutes
from tests.serving.front.raw_client import ask
from tests.serving.front.serving import a_spec, serving

TENSORFLOW = a_spec(
    scorer=Scorer.TENSORFLOW,
    models=(ServedModel("my model", 3, ()),),
    scoring_path="/v1/models/my%20model:predict",
)
SCHEMA = {"input": {"type": "object", "properties": {"data": {"type": "array"}}}}


def kind_of(routes: ServiceRoutes, url: bytes) -> RouteKind | None:
    route = routes.find(url).route
    return route and route.kind


def test_a_tensorflow_service_hands_its_models_routes_to_the_worker() -> None:
    routes = ServiceRoutes(TENSORFLOW)
    assert kind_of(routes, b"/v1/models/my%20model:predict") is RouteKind.SCORE
    assert kind_of(routes, b"/score") is RouteKind.SCORE
    for rest in (b"", b"/metadata", b"/versions/3", b"/versions/3:predict", b":classify", b":regress"):
        target = routes.find(b"/v1/models/my%20model" + rest + b"?x=1")
        assert target.route is not None
        assert (target.route.kind, target.query) == (RouteKind.MODEL, "x=1")
        assert target.path.endswith(rest.decode())
    assert "/v1/models/my%20model:predict or /score" in routes.described()


def test_other_services_have_no_models_routes() -> None:
    assert kind_of(ServiceRoutes(a_spec()), b"/v1/models/my%20model") is None


def test_what_is_below_a_known_route_is_not_it() -> None:
    routes = ServiceRoutes(a_spec())
    assert [
        kind_of(routes, url) for url in (b"/score/x", b"/scorex", b"/swagger.json/", b"/api/v1/service/other/score")
    ] == [None] * 4


def test_a_script_with_a_schema_takes_json_and_nothing_else(tmp_path: Path) -> None:
    with serving(tmp_path) as front:
        assert front.dispatcher.facts is not None
        front.dispatcher.facts = replace(front.dispatcher.facts, schema=SCHEMA)
        given = ("application/json", "application/json; charset=utf-8", "", "application/vnd.odd+json")
        assert [ask(front.port, body=b"1", Content_Type=one).status for one in given] == [200] * 4
        refused = ask(front.port, body=b"1", Content_Type="text/csv")
        assert refused.status == 415
        assert "application/json" in refused.message
        second, third = (ask(front.port, "GET", path).json for path in ("/swagger.json", "/swagger.json?version=3"))
        assert "data" in second["definitions"]["ServiceInput"]["properties"]
        assert "data" in third["components"]["schemas"]["ServiceInput"]["properties"]
