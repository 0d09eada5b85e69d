"""A supervisor's report is read once, with every field of its type; what is not known is kept for the part."""

from datetime import UTC, datetime
from typing import Any

import pytest

from runyard.core.definitions.node_report import NodeReport, ReportedError
from runyard.core.errors import InvalidArgument

ENDED = {
    "state": "ended",
    "node": 1,
    "outcome": "failed",
    "error": {"code": "UserError", "message": "It failed.", "ofALaterNode": 1},
    "exit_code": 3,
    "failed_at": "2026-01-02T03:04:05+00:00",
    "outputs": {"out": 2},
    "ranks": [[0, "worker", "azureml-logs/70_driver_log_0.txt"]],
    "exits": {"0": [3, None]},
    "ofALaterNode": [1, 2],
}


def test_every_field_has_its_type():
    report = NodeReport.parse(ENDED)
    assert (report.state, report.node, report.outcome) == ("ended", 1, "failed")
    assert report.error == ReportedError("UserError", "It failed.")
    assert report.failed_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (report.exit_code, report.signal, report.tail) == (3, None, None)
    assert (report.ranks[0].rank, report.exits, report.outputs) == (0, {0: (3, None)}, {"out": 2})


def test_what_is_not_known_is_kept_and_long_texts_are_cut():
    report = NodeReport.parse({**ENDED, "message": "m" * 5_000, "tail": "t" * 100_000})
    assert report.raw["ofALaterNode"] == [1, 2]
    assert (len(report.message), len(report.tail or "")) == (2_000, 64 << 10)
    assert report.raw["message"] == report.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", "flying"),
        ("state", None),
        ("node", "one"),
        ("node", True),
        ("outcome", "lost"),
        ("outcome", None),
        ("error", "no"),
        ("error", ""),
        ("oom", 1),
        ("lost", "yes"),
        ("outputs", ""),
        ("exits", []),
        ("message", ["m"]),
        ("tail", 5),
        ("lock", {}),
        ("exit_code", "3"),
        ("failed_at", "yesterday"),
        ("failed_at", "2026-01-02T03:04:05"),
        ("failed_at", 10**400),
        ("warnings", "w"),
        ("outputs", {"out": "two"}),
        ("last_lines", {"0": "tail"}),
        ("ranks", [[0]]),
        ("ranks", [["first", "worker", "log"]]),
        ("exits", {"first": [0, None]}),
        ("exits", {"0": 1}),
        ("exits", {"0": ["a", None]}),
        ("exits", {"9" * 5000: [0, None]}),
    ],
)
def test_an_error_names_the_field(field: str, value: Any):
    with pytest.raises(InvalidArgument, match=rf"^{field}\b"):
        NodeReport.parse({**ENDED, field: value})
