"""Values that JSON does not have, in responses."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from runyard.core.records.runs import RunId, RunStatus
from runyard.server.http.responses import to_json


@dataclass(frozen=True)
class Row:
    name: str
    status: RunStatus
    at: datetime
    nodes: tuple[str, ...]


AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            Row("a", RunStatus.COMPLETED, AT, ("x",)),
            b'{"name":"a","status":"Completed","at":"2026-01-02T00:00:00Z","nodes":["x"]}',
        ),
        ({2: "a", None: "b", True: "c"}, b'{"2":"a","null":"b","true":"c"}'),
        ({RunStatus.COMPLETED: 1, RunId("r"): 2}, b'{"Completed":1,"r":2}'),
        ({"a": {2: {3: RunStatus.FAILED}}}, b'{"a":{"2":{"3":"Failed"}}}'),
        ({1: "\udcff"}, rb'{"1":"\\udcff"}'),
        ({"\udcff": 2**70}, rb'{"\\udcff":1.1805916207174113e+21}'),
    ],
)
def test_values_become_json(value, text):
    assert to_json(value) == text


def test_nesting_beyond_the_limit_is_cut():
    deep: Any = 1
    for _ in range(400):
        deep = {"a": deep}
    assert b'"..."' in to_json(deep)
    assert orjson.loads(to_json(deep))
