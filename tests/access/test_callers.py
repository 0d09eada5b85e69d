"""Which caller may use which route: a golden table of every route of the OpenAPI and every kind of caller."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.access.tokens import Tokens
from runyard.core.errors import Forbidden
from runyard.core.policy import TABLE, Action, Reach, Resource, may, require, require_right
from runyard.core.principal import OWNER, SERVICE, Principal, Role
from tests.attempts import begin_attempt
from tests.conftest import serving
from tests.server.operations import Operation, operations
from tests.wire_client import WireClient

GOLDEN = Path(__file__).parent / "golden" / "callers.txt"
BLOBS = "workspaceblobstore"
REFUSED = ("401", "403")
WRITE_ANEW = "RUNYARD_WRITE_GOLDEN"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A service that ends with these tests: the shared one would look after their 200 unfinished runs to its end."""
    with serving(tmp_path_factory.mktemp("callers") / "home") as facts:
        yield facts


class Yard:
    """Two workspaces with the runs of callers, and runs for requests to change or end."""

    def __init__(self, owner: WireClient, home: str) -> None:
        self._owner, self._home, self._tokens, self._made = owner, home, Tokens(owner.token), 0
        self.elsewhere = f"{owner.workspace}-elsewhere"
        owner.put(f"/workspaces/{self.elsewhere}", {"exist_ok": True})
        self._beside, self._far = self._run(owner.workspace), self._run(self.elsewhere)

    def names(self) -> dict[str, str]:
        """The things of a new run, which declares out/ as its output."""
        run_id = self._run(self._owner.workspace)
        return {
            "workspace": self._owner.workspace,
            "run_id": run_id,
            "attempt_id": f"{run_id}.1",
            "experiment": "probe",
            "name": BLOBS,
            "kind": "models",
            "path": "out/x",
            "sha256": "0" * 64,
        }

    def nobody(self, names: Mapping[str, str]) -> WireClient:
        return self._owner.with_token("wrong")

    def script(self, names: Mapping[str, str]) -> WireClient:
        return self._owner.with_token(self._tokens.run_token(names["attempt_id"]))

    def node(self, names: Mapping[str, str]) -> WireClient:
        return self._owner.with_token(self._tokens.node_token(names["attempt_id"]))

    def other_script(self, names: Mapping[str, str]) -> WireClient:
        """Of another run in the same workspace."""
        return self._owner.with_token(self._tokens.run_token(f"{self._beside}.1"))

    def stranger(self, names: Mapping[str, str]) -> WireClient:
        """The script of a run in another workspace."""
        return self._owner.with_token(self._tokens.run_token(f"{self._far}.1"))

    def other_node(self, names: Mapping[str, str]) -> WireClient:
        return self._owner.with_token(self._tokens.node_token(f"{self._far}.1"))

    def _run(self, workspace: str) -> str:
        self._made += 1
        run_id = f"caller-{self._owner.workspace}-{self._made}"
        place = {"dataPath": {"datastoreName": BLOBS, "relativePath": "out"}}
        definition = {"outputData": {"o": {"outputLocation": place, "mechanism": "Mount"}}}
        body = {"run_id": run_id, "interactive": True, "definition": definition}
        self._owner.post(f"/workspaces/{workspace}/experiments/probe/runs", body)
        begin_attempt(self._home, run_id)
        return run_id


CALLERS: Mapping[str, Callable[[Yard, Mapping[str, str]], WireClient]] = {
    "nobody": Yard.nobody,
    "script": Yard.script,
    "other script": Yard.other_script,
    "stranger": Yard.stranger,
    "node": Yard.node,
    "other node": Yard.other_node,
}


def _outcome(client: WireClient, operation: Operation, names: Mapping[str, str]) -> str:
    body: Any = b"x" if operation.takes_bytes else operation.least_body()
    path = operation.at(names)
    if operation.path.endswith(("/wait", "/stream")):
        path += "?timeout=0"
    status = client.ask(operation.method, path, body).status
    return str(status) if str(status) in REFUSED else "may" if status < 500 else f"BROKEN {status}"


def test_every_route_and_caller_are_as_the_golden_table_says(client, service):
    yard = Yard(client, service["home"])
    names = yard.names()
    lines = [f"{'':70}" + "".join(f"{name:14}" for name in CALLERS)]
    for operation in operations():
        if operation.path.endswith("/stream"):
            continue  # an answer without an end; its rights are those of reading the run
        found = []
        for caller in CALLERS.values():
            found.append(_outcome(caller(yard, names), operation, names))
            if found[-1] not in REFUSED:
                names = yard.names()  # it may have changed or ended the run
        lines.append(f"{operation!s:70}" + "".join(f"{one:14}" for one in found))
    made = "\n".join(line.rstrip() for line in lines) + "\n"
    assert "BROKEN" not in made, made
    if os.environ.get(WRITE_ANEW):
        GOLDEN.write_text(made, encoding="utf-8")
    assert made == GOLDEN.read_text(encoding="utf-8"), f"Set {WRITE_ANEW}=1 to write the table anew, and read its diff."


RUN = Principal(Role.RUN, run_id="r", attempt_id="r.1", workspace="lab")  # type: ignore[arg-type]
NODE = Principal(Role.NODE, run_id="r", attempt_id="r.1")  # type: ignore[arg-type]


def test_the_table_has_a_row_for_every_action():
    assert set(TABLE) == set(Action)


@pytest.mark.parametrize("action", Action)
def test_owner_and_service_may_do_everything_and_others_what_their_row_says(action):
    nothing = Resource("something elsewhere")
    assert may(OWNER, action, nothing)
    assert may(SERVICE, action, nothing)
    everything = Resource(
        "all of mine",
        workspace="lab",
        run_id="r",
        attempt_id="r.1",
        created_by="run:r",
        is_below=lambda run: run == "r",
        is_its_data=lambda: True,
    )
    for who in (RUN, NODE):
        reach = TABLE[action].get(who.role)
        assert may(who, action, everything) is (reach is not None)
        assert may(who, action, nothing) is (reach is Reach.ANYTHING)


def test_a_scope_takes_from_a_role_and_adds_nothing_to_it():
    own = Resource("run r", workspace="lab", run_id="r")
    reader = replace(RUN, scopes=frozenset({Action.READ_RUN, Action.DELETE_RUN}))
    assert may(reader, Action.READ_RUN, own)
    assert not may(reader, Action.WRITE_RUN, own)
    assert not may(reader, Action.DELETE_RUN, own)
    assert not may(reader, Action.READ_RUN, Resource("run q", workspace="elsewhere", run_id="q"))
    for role in (OWNER, SERVICE):
        scoped = replace(role, scopes=frozenset({Action.READ_RUN}))
        assert may(scoped, Action.READ_RUN, own)
        assert not may(scoped, Action.CANCEL_RUN, own)


@pytest.mark.parametrize("ask", [lambda who, action: require(who, action, Resource("run r")), require_right])
def test_a_refusal_says_which_scope_would_be_needed(ask):
    reader = replace(OWNER, scopes=frozenset({Action.READ_RUN, Action.SUBMIT_RUN}))
    with pytest.raises(Forbidden) as refused:
        ask(reader, Action.CANCEL_RUN)
    assert refused.value.problem == "This token may not cancel a run: its scopes are 'read_run', 'submit_run'."
    assert refused.value.hint == "Use a token with the scope 'cancel_run', or the owner's."
    assert refused.value.facts == {"action": "cancel_run", "needs": "scope cancel_run"}
    with pytest.raises(Forbidden, match=r"' and \d+ more\."):
        ask(replace(OWNER, scopes=frozenset(Action) - {Action.CANCEL_RUN}), Action.CANCEL_RUN)


def test_what_nobody_of_a_role_may_do_is_refused_whatever_it_is_on():
    for action in Action:
        for who in (RUN, NODE):
            if who.role in TABLE[action]:
                require_right(who, action)
            else:
                with pytest.raises(Forbidden, match=f" may not {re.escape(action)}"):
                    require_right(who, action)


def test_a_node_is_refused_in_the_words_of_the_table_before_its_body_is_read(client, service):
    yard = Yard(client, service["home"])
    node = yard.node(yard.names())
    refused = node.refusal("POST", f"{client.here}/datasets", b"{ no JSON")
    assert (refused["status"], refused["facts"]["action"]) == (403, "create_asset")
    assert refused["problem"].endswith(" may not register an asset.")
    assert client.refusal("POST", f"{client.here}/datasets", b"{ no JSON")["status"] == 400


def test_what_another_run_has_made_is_not_a_runs_to_change():
    assert may(RUN, Action.CHANGE_ASSET, Resource("model 'm'", workspace="lab", created_by="run:r"))
    assert may(RUN, Action.CHANGE_ASSET, Resource("model 'm'", workspace="lab", is_below=lambda run: run == "r"))
    assert not may(RUN, Action.CHANGE_ASSET, Resource("model 'm'", workspace="lab", created_by="run:other"))
    assert not may(RUN, Action.CHANGE_ASSET, Resource("model 'm'", workspace="lab", created_by="owner"))
