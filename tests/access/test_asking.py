"""Every route and every use case asks the policy: one that asks nobody fails here."""

import ast
import asyncio
import hashlib
import inspect
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import runyard.server
from runyard.access import authorization
from runyard.compute.sites import ComputeSites
from runyard.core import policy
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import Forbidden, NotFound
from runyard.core.policy import Action
from runyard.core.principal import OWNER, Principal, Role
from runyard.core.settings import Settings
from runyard.runs.kinds.sweep.spec import sweep_in
from runyard.runs.submit import Submission
from runyard.server.app import ROOT_ROUTERS, ROUTERS
from runyard.server.http.routes import Route
from runyard.server.services import Services
from runyard.server.wiring.platform import Platform, build
from runyard.testing.records import a_run, a_workspace
from tests.assets.test_references import SWEEP
from tests.server.operations import operations

TOKEN = "owner-of-this-test"
KINDS = {name: kind for name, kind in typing.get_type_hints(Services).items() if inspect.isclass(kind)}
FOR_PROBES = {"GET /healthz", "GET /readyz"}
"""They say whether the service is up, to anybody."""
HARMLESS = {
    "Tokens.identify": "tells who calls: there is no caller before",
    "Tokens.scraper": "the same, for GET /metrics",
    "Tokens.page_opens_until": "the same, for pages: compares a signature, reads no store",
    "Tokens.page_key": "signs an id, reads no store; shown to the owner, and to who has such a key",
    "RunKinds.of": "which class a record that the caller has read is of; reads no store",
    "RunKinds.type_of": "which type a kind has; reads no store",
    "Notifier.following": "wakes those who wait, and tells them nothing",
    "Notifier.is_stopping": "whether the service stops",
    "ServerMetrics.readiness": "ready, or why not, for probes without a token",
}
"""What routes call without a caller, each with the reason why nobody has to be asked."""


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    """A service in this process, which starts nothing."""
    monkeypatch.setattr(ComputeSites, "warm", lambda self: None)
    made = build(Settings(tmp_path), TOKEN, base_url="http://localhost", stop=lambda: None)
    made.app.state.keep = lambda: None
    yield made
    made.sites.close()
    made.app.state.access_log.close()
    made.core.stores.close()


def all_routes() -> list[Route]:
    return [route for routes in (*ROUTERS, *ROOT_ROUTERS) for route in routes.all]


def test_every_route_says_what_it_is_for():
    nameless = {f"{route.method} {route.path}" for route in all_routes() if route.action is None}
    assert nameless == FOR_PROBES


def called() -> set[tuple[str, str]]:
    """(field of Services, attribute) of everything that the HTTP edge uses of a use case."""
    found = set()
    server = Path(runyard.server.__file__).parent
    edge = {file for file in server.rglob("*.py") if file.parent.name not in ("lifecycle", "wiring")}
    for file in sorted(edge):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        inner = {id(one.value): one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)}
        for one in ast.walk(tree):
            if isinstance(one, ast.Attribute) and one.attr in KINDS and _is_services(one.value):
                assert id(one) in inner, f"{file.name}:{one.lineno} hands on {one.attr} as a whole."
                found.add((one.attr, inner[id(one)]))
    return found


def _is_services(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in ("services", "_services")


def _takes_caller(kind: type, name: str) -> bool:
    method = inspect.getattr_static(kind, name, None)
    if not inspect.isfunction(method):
        return False
    _, *given = inspect.signature(method).parameters.values()
    return bool(given) and given[0].name == "who" and given[0].annotation is Principal


def test_every_use_case_that_a_route_calls_takes_the_caller():
    without = {f"{KINDS[field].__name__}.{name}" for field, name in called() if not _takes_caller(KINDS[field], name)}
    assert len(called()) > 100
    assert without == set(HARMLESS)


def test_every_use_case_refuses_a_caller_without_a_right_before_all_else(platform):
    """Whatever else it is given, so nothing was looked up or parsed by then."""
    nobody, silent = Principal(Role.OWNER, scopes=frozenset()), []
    for field, name in sorted(called()):
        if not _takes_caller(KINDS[field], name) or KINDS[field] is authorization.Access:
            continue
        method = getattr(getattr(platform.services, field), name)
        _, *others = inspect.signature(method).parameters.values()
        given = {one.name: MagicMock(name=one.name) for one in others}
        try:
            method(nobody, **given)
        except Forbidden:
            continue
        except Exception as error:  # something else was looked at first
            silent.append(f"{field}.{name}: {error!r:.200}")
        else:
            silent.append(f"{field}.{name}")
    assert silent == []


OUTPUT = {"outputLocation": {"dataPath": {"datastoreName": "d", "relativePath": "x"}}, "mechanism": "Mount"}
NAMED: dict[str, tuple[dict[str, Any], Action]] = {
    "dataset": ({"data": {"d": {"dataLocation": {"dataset": {"id": "x"}}, "mechanism": "Mount"}}}, Action.READ_DATASET),
    "datastore": ({"outputData": {"o": OUTPUT}}, Action.READ_FILES),
    "compute target": ({"script": "train.py", "target": "cluster"}, Action.READ_ASSET),
    "run of a sweep": ({"runyard": {"sweep": {**SWEEP, "resume_from": ["first"]}}}, Action.READ_RUN),
}
"""What a submission names, and the action that it takes to use it."""


@pytest.mark.parametrize("named", NAMED)
def test_what_a_submission_names_is_used_by_who_may_read_it(platform, named):
    platform.core.stores.assets.create_workspace(a_workspace("lab"))
    platform.core.stores.runs.create(a_run("first", workspace="lab", type="hyperdrive"))
    definition, action = NAMED[named]
    submitter = Principal(Role.OWNER, scopes=frozenset(Action) - {action})
    kind = "hyperdrive" if "runyard" in definition else "azureml.scriptrun"
    is_interactive = "target" not in definition and kind != "hyperdrive"
    parsed = RunDefinition.parse(definition)
    asked = Submission("new", parsed, sweep=sweep_in(parsed), type=kind, is_interactive=is_interactive)
    with pytest.raises((Forbidden, NotFound)) as refused:
        platform.services.submissions.submit(submitter, "lab", "probe", asked)
    is_hidden = isinstance(refused.value, NotFound) and "'first'" in refused.value.problem
    assert is_hidden or refused.value.facts["action"] == action.name.lower()


def test_a_blob_is_named_by_who_may_read_it_or_has_sent_it(platform):
    content = b"not for everybody"
    sha256 = hashlib.sha256(content).hexdigest()
    platform.core.blobs.put(sha256, [content])
    assert platform.services.blobs.missing(OWNER, [sha256]) == []
    writer = Principal(Role.OWNER, scopes=frozenset({Action.WRITE_BLOB}))
    assert platform.services.blobs.missing(writer, [sha256]) == [sha256]


def test_every_route_asks_for_the_action_that_it_names(platform, monkeypatch):
    """In the use case, beside the first question, which is asked before the body is read."""
    asked: list[Action] = []

    def noting(check: Any) -> Any:
        def noted(who: Principal, action: Action, *rest: Any) -> Any:
            asked.append(action)
            return check(who, action, *rest)

        return noted

    for name in ("may", "require", "require_right"):
        monkeypatch.setattr(authorization, name, noting(getattr(policy, name)))
    named = {f"{one.method} {_plain(one.path)}": one.action for one in all_routes()}
    asyncio.run(_ask_all(platform, asked, named))


async def _ask_all(platform: Platform, asked: list[Action], named: dict[str, Action | None]) -> None:
    names = {"kind": "models", "sha256": "0" * 64, "workspace": "lab"}
    platform.core.stores.assets.create_workspace(a_workspace("lab"))
    for one in operations():
        if str(one) == "DELETE /workspaces/{workspace}":
            continue  # the others need it
        body = b"x" if one.takes_bytes else b"" if one.body is None else json.dumps(one.least_body()).encode()
        asked.clear()
        status = await _status(platform, one.method, one.at(names), body)
        assert status < 500, (str(one), status)
        assert named[str(one)] in asked[1:], (str(one), status, asked)


async def _status(platform: Platform, method: str, path: str, body: bytes) -> int:
    headers = {"host": "localhost", "authorization": f"Bearer {TOKEN}", "content-length": str(len(body))}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"timeout=0",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        return incoming.pop() if incoming else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await platform.app(scope, receive, send)
    return int(sent[0]["status"])


def _plain(path: str) -> str:
    """Without the converters of Starlette."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)
