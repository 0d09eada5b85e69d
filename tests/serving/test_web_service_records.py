"""Web services as they are listed and shown."""

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.principal import OWNER
from runyard.core.records.web_services import ServiceFailure, ServiceState
from tests.serving.web_service_parts import SPACE, opened_parts


@pytest.fixture
def parts(home):
    with opened_parts(home) as opened:
        opened.model()
        yield opened


def test_listing_filters_by_type_model_image_tag_and_property(parts):
    parts.model("other")
    parts.deploy("first-one", tags={"k": "v"})
    parts.deploy("second-one", type="AKS", models=["other:1"])
    parts.change("second-one", properties={"p": "q"})
    assert parts.names() == ["first-one", "second-one"]
    assert parts.names(type="aks") == ["second-one"]
    assert parts.names(model="iris") == parts.names(model="iris:1") == ["first-one"]
    assert parts.names(model="iris:2") == parts.names(image="none") == []
    assert parts.names(tags={"k": None}) == parts.names(tags={"k": "v"}) == ["first-one"]
    assert parts.names(tags={"k": "w"}) == []
    assert parts.names(properties={"p": "q"}) == ["second-one"]
    with pytest.raises(InvalidArgument, match="type"):
        parts.names(type="VM")


def test_a_record_says_where_it_is_asked(parts):
    parts.deploy("plain-one")
    parts.deploy("kube-one", type="AKS")
    parts.model("net", framework="TensorFlow", framework_version="2.15")
    parts.deploy("no-code", models=["net:1"], inference=None)
    assert parts.record("plain-one").scoring_uri == "http://localhost:4711/score"
    assert parts.record("plain-one").swagger_uri == "http://localhost:4711/swagger.json"
    assert parts.record("kube-one").scoring_uri == "http://localhost:4711/api/v1/service/kube-one/score"
    assert parts.record("kube-one").swagger_uri == "http://localhost:4711/api/v1/service/kube-one/swagger.json"
    assert parts.record("no-code").scoring_uri == "http://localhost:4711/v1/models/net:predict"


def test_a_record_is_transitioning_until_its_newest_revision_answers_or_failed(parts):
    made = parts.deploy()
    parts.host.change(made.id, revision=0, state=ServiceState.TRANSITIONING, step="environment", port=0)
    record = parts.record()
    assert (record.state, record.step, record.scoring_uri) == ("Transitioning", "environment", None)
    trouble = ServiceFailure("init() failed: no such file", "Look at the log.", "init", "Traceback ...", "last line")
    parts.host.change(made.id, failed_revision=1, state=ServiceState.FAILED, trouble=trouble)
    record = parts.record()
    assert record.state == "Failed"
    assert record.error == trouble


def test_an_older_revision_that_answers_while_a_new_one_is_made_is_shown_as_transitioning(parts):
    made = parts.deploy()
    parts.serving.services.reload(OWNER, SPACE, "iris-service")
    parts.host.change(made.id, revision=1)
    assert (parts.record().state, parts.record().revision) == ("Transitioning", 1)
    parts.host.change(made.id, failed_revision=2)
    assert parts.record().state == "Healthy"


def test_the_last_lines_of_a_long_log_are_found(parts):
    made = parts.deploy()
    parts.host.logs[made.id] = b"".join(b"line %d\n" % number for number in range(100_000))
    data, behind = parts.serving.records.last_lines(OWNER, made, 20_000)
    assert data.splitlines()[0] == b"line 80000"
    assert behind == len(parts.host.logs[made.id])
    assert parts.serving.records.last_lines(OWNER, made, 0)[0] == b""
    assert parts.serving.records.log(OWNER, made, 5, 6) == (b"0\nline", 11)
