"""The errors on the wire, as every client of the service reads them."""

from functools import partial

import pytest

from runyard.client import Backoff, ServiceClient, ServiceUnavailable, retry_while_unavailable
from runyard.core import errors
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores import open_store
from runyard.node.service_client import connect_to_service
from runyard_sdk import errors as sdk_errors
from runyard_sdk import transport
from runyard_sdk.client import Client
from runyard_sdk.discovery import Service
from tests.client.scripted_service import Reply, ScriptedService, refusal, refusal_of

RETRIED = {"too_slow", "standing_by", "database_away"}
ONLY_OF_THE_SDK = {"unavailable"}
WAITED_FOR_BY_NODES = {
    "internal",
    "unauthorized",
    "not_yet",
    "storage_full",
    "schema_too_new",
    "engine",
    "no_capacity",
    "engine_silent",
}
"""Beside those that every client sends again. A node waits for days where that saves a run."""
WAITED_FOR_BY_DATASTORES = {"internal", "schema_too_new", "engine", "no_capacity", "engine_silent"}
CODES = sorted(errors.BY_CODE)


def table(by_code: dict[str, type]) -> dict[str, tuple[str, str, int, bool]]:
    return {
        code: (known.__name__, known.__mro__[1].__name__, known.status, known.is_retried)
        for code, known in by_code.items()
    }


def test_the_service_and_the_sdk_have_the_same_table() -> None:
    of_sdk = {code: row for code, row in table(sdk_errors.BY_CODE).items() if code not in ONLY_OF_THE_SDK}
    assert of_sdk == table(dict(errors.BY_CODE))


def test_requests_that_were_not_processed_are_the_retried_ones() -> None:
    assert {code for code, known in errors.BY_CODE.items() if known.is_retried} == RETRIED


def test_an_unknown_code_is_the_root_error_on_both_sides() -> None:
    body = {"code": "of_the_future", "problem": "It is so.", "hint": "", "facts": {}}
    assert type(errors.from_wire(body)) is errors.RunyardError
    assert type(sdk_errors.from_wire(body)) is sdk_errors.RunyardError


@pytest.mark.parametrize("code", CODES)
def test_what_a_node_waits_for(service: ScriptedService, code: str) -> None:
    known = errors.BY_CODE[code]
    client = connect_to_service(service.home, "t")
    service.answers(refusal_of(known))
    if code in RETRIED | WAITED_FOR_BY_NODES:
        assert retry_while_unavailable(partial(client.get, "/a")) == {}
        assert len(service.seen) == 2
    else:
        with pytest.raises(known, match=r"It is so\. Do this\.") as refused:
            retry_while_unavailable(partial(client.get, "/a"))
        assert type(refused.value) is known
        assert len(service.seen) == 1


@pytest.mark.parametrize("code", CODES)
def test_what_a_datastore_waits_for(service: ScriptedService, code: str) -> None:
    known = errors.BY_CODE[code]
    access = StoreAccess("service", "space/store", {"home": str(service.home)}, {"token": "t"})
    store = open_store(access, NetworkRules(retry_seconds=20))
    row = Reply(body=b'{"path": "a", "size": 1, "etag": "x"}')
    service.answers(refusal_of(known), row)
    if code in RETRIED | WAITED_FOR_BY_DATASTORES:
        assert store.stat("a").etag == "x"
        assert len(service.seen) == 2
    else:
        raised = errors.AccessDenied if issubclass(known, errors.Unauthorized) else known
        with pytest.raises(raised, match=r"It is so\. Do this\."):
            store.stat("a")
        assert len(service.seen) == 1


@pytest.mark.parametrize("code", CODES)
def test_what_the_sdk_waits_for(service: ScriptedService, code: str) -> None:
    service.answers(refusal_of(errors.BY_CODE[code]))
    client = sdk_client(service)
    if code in RETRIED:
        assert client.get("/a") == {}
        assert len(service.seen) == 2
    else:
        with pytest.raises(sdk_errors.BY_CODE[code], match=r"It is so\. Do this\."):
            client.get("/a")
        assert len(service.seen) == 1


def test_the_sdk_repeats_nothing_that_may_have_an_effect_twice(service: ScriptedService) -> None:
    service.answers(refusal("standing_by", 503))
    with pytest.raises(sdk_errors.StandingBy):
        sdk_client(service).post("/a")
    assert len(service.seen) == 1


def test_the_sdk_gives_up_in_the_words_of_the_service(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_PATIENCE_WITH_STRANGERS_SECONDS", 0.05)
    service.answers(*[refusal("standing_by", 503)] * 100)
    with pytest.raises(sdk_errors.StandingBy, match="It is so"):
        sdk_client(service).get("/a")
    assert len(service.seen) > 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 520])
@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b'["no", "object"]', b'{"code": "newer"}'])
def test_a_failing_proxy_is_waited_for(service: ScriptedService, status: int, body: bytes) -> None:
    service.answers(Reply(status, body))
    assert retry_while_unavailable(partial(ServiceClient(service.home, "t").get, "/a")) == {}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"code": "standing_by", "problem": "Another holds it."}', "Another holds it."),
        (b'{"problem": "Another holds it."}', "Another holds it."),
        (b"<html>Bad Gateway</html>", "<html>Bad Gateway</html>"),
        (b'["no", "object"]', '["no", "object"]'),
        (b"", ""),
        (b"[" * 100_000, "[" * 300),
    ],
)
def test_a_failure_is_told_by_the_answer_and_the_request(service: ScriptedService, body: bytes, words: str) -> None:
    service.answers(Reply(503, body))
    with pytest.raises(ServiceUnavailable) as away:
        ServiceClient(service.home, "t").get("/a")
    request_id = service.seen[0].headers["x-request-id"]
    assert str(away.value) == f"the service answered 503: {words} (request {request_id})"


def test_a_refusal_without_a_code_is_final_and_shown(service: ScriptedService) -> None:
    service.answers(Reply(403, b"Go away"))
    with pytest.raises(errors.RunyardError, match="answered 403: Go away"):
        connect_to_service(service.home, "t").get("/a")


def test_a_full_disk_is_told_from_other_troubles(service: ScriptedService) -> None:
    service.answers(refusal("storage_full", 507), refusal("internal", 500))
    client = connect_to_service(service.home, "t")
    for is_full in (True, False):
        with pytest.raises(ServiceUnavailable) as away:
            client.get("/a")
        assert away.value.is_full is is_full


def test_patience_ends_with_the_error_that_was_asked_for(service: ScriptedService) -> None:
    service.answers(*[refusal("internal", 500)] * 100)
    patience = Backoff(0.1, lambda away: errors.Unreachable(f"{away}"))
    with pytest.raises(errors.Unreachable, match="answered 500"):
        retry_while_unavailable(partial(ServiceClient(service.home, "t").get, "/a"), patience)
    assert len(service.seen) > 1


def sdk_client(service: ScriptedService) -> Client:
    return Client(transport.Transport(find=lambda refused=None: Service(service.url, "t", True)))
