import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.records.metrics import MetricBatch, MetricKind
from runyard.runs.history.journal_lines import parse_journal

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**63) + 1, 2**63 - 1), st.floats(), st.text())
STEPS = st.one_of(st.none(), st.integers(-(2**62), 2**62))
NAMES = st.sampled_from(["loss", "accuracy", "ü", ""])
SCALAR_LINES = st.tuples(st.just("m"), NAMES, SCALARS, STEPS, st.floats(0, 2e9))
OTHER_LINES = st.sampled_from([["l", "loss", [1, 2], 3.0], ["r", "row", {"x": 1}, 3.0], ["tag", "a", "b"]])


def journal(*lines: Any) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_every_kind_of_line_is_understood():
    parsed = parse_journal(
        journal(
            ["m", "loss", 0.5, 3, 10.0],
            ["l", "steps", [1, 2], 11.0],
            ["r", "row", {"x": 1}, 12],
            ["t", "table", {"x": [1, 2]}, 13.0],
            ["i", "plot", "plot_1.png", 14.0],
            ["tag", "a", 1],
            ["tag", "gone", None],
            ["prop", "p", "q"],
            ["err", {"code": "UserError", "message": "no"}],
            ["name", "my run"],
            ["drop", 2],
            ["drop", 3],
        )
    )
    assert parsed.batches == [
        MetricBatch("loss", MetricKind.SCALAR, [0.5], [3], [10.0]),
        MetricBatch("steps", MetricKind.LIST, [1, 2], [None, None], [11.0, 11.0]),
        MetricBatch("row", MetricKind.ROW, [{"x": 1}], [None], [12.0]),
        MetricBatch("table", MetricKind.TABLE, [{"x": [1, 2]}], [None], [13.0]),
        MetricBatch("plot", MetricKind.IMAGE, ["plot_1.png"], [None], [14.0]),
    ]
    assert parsed.tags == {"a": "1", "gone": None}
    assert parsed.properties == {"p": "q"}
    assert parsed.errors == [{"code": "UserError", "message": "no"}]
    assert (parsed.display_name, parsed.dropped, parsed.bad_lines) == ("my run", 5, 0)


def test_scalars_and_lists_of_one_name_stay_in_order():
    parsed = parse_journal(journal(["m", "a", 1, None, 1.0], ["l", "a", [2, 3], 2.0], ["m", "a", 4, None, 3.0]))
    assert [(batch.kind, batch.values) for batch in parsed.batches] == [(MetricKind.SCALAR, [1, 2, 3, 4])]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"5",
        b"{}",
        b"[]",
        b"null",
        b'["unknown",1]',
        b'["m"]',
        b'["m","a",[1],null,1.0]',
        b'["m",1,1,null,1.0]',
        b'["m","a",1,null,"yesterday"]',
        b'["m","a",1,"x",1.0]',
        b'["m","a",1,null,1.0',
        b'["m","a",1,null,1.0],["m","a",1,null,1.0]',
        b'["l","a",[[1]],1.0]',
        b'["r","a",1,1.0]',
        b'["drop",-1]',
        b'["drop",1e400]',
        b'["tag",["a"],1]',
        b"[" * 100_000,
    ],
)
def test_a_broken_line_costs_only_itself(line):
    sound = journal(["m", "loss", 1, None, 1.0])
    parsed = parse_journal(sound + line + b"\n" + sound)
    assert parsed.batches == [MetricBatch("loss", MetricKind.SCALAR, [1, 1], [None, None], [1.0, 1.0])]
    assert parsed.bad_lines == (1 if line else 0)


def test_nan_infinities_and_lone_surrogates_are_kept():
    parsed = parse_journal(
        journal(["m", "a", math.nan, None, 1.0], ["m", "a", -math.inf, None, 1.0], ["name", "\ud800"])
    )
    [batch] = parsed.batches
    assert math.isnan(batch.values[0])
    assert batch.values[1] == -math.inf
    assert (parsed.display_name, parsed.bad_lines) == ("\ud800", 0)


def test_a_step_that_fits_no_column_is_left_out():
    parsed = parse_journal(journal(["m", "a", 1, 2**63, 1.0], ["m", "a", 1, -(2**63), 1.0], ["m", "a", 1, 2.0, 1.0]))
    assert [batch.steps for batch in parsed.batches] == [[None, None, 2]]


def test_nothing_means_nothing():
    assert parse_journal(b"").batches == []
    assert parse_journal(b"\n\n \n").bad_lines == 0


@given(st.lists(SCALAR_LINES, max_size=30), st.lists(OTHER_LINES, max_size=2))
def test_the_quick_way_and_the_careful_way_agree(scalars, others):
    """Any other line sends the whole piece the careful way; the scalars must come out the same."""
    quick = parse_journal(journal(*scalars))
    careful = parse_journal(journal(*scalars, ["drop", 0], *others))
    assert quick.bad_lines == careful.bad_lines == 0
    seen = {batch.name: batch for batch in careful.batches if batch.kind is MetricKind.SCALAR}
    for batch in quick.batches:
        count = len(batch.values)
        assert repr(seen[batch.name].values[:count]) == repr(batch.values)
        assert (seen[batch.name].steps[:count], seen[batch.name].at[:count]) == (batch.steps, batch.at)
    assert sum(len(batch.values) for batch in quick.batches) == len(scalars)


@given(st.binary())
def test_no_bytes_raise(data):
    parse_journal(data)
    parse_journal(b'["m","a",1,null,1.0]\n' + data)


@pytest.mark.parametrize(
    "line", ['["r","a",{{"x":{}}},1.0]', '["t","a",{{"x":{}}},1.0]', '["err",{{"x":{}}}]', '["tag","a",{}]']
)
@pytest.mark.parametrize("inner", ["", "NaN"])
def test_what_is_nested_too_deep_to_be_stored_is_a_bad_line(line, inner):
    for depth in range(900, 1100, 4):
        assert parse_journal(line.format("[" * depth + inner + "]" * depth).encode() + b"\n").bad_lines == 1
    parsed = parse_journal(line.format("[" * 100 + inner + "]" * 100).encode() + b"\n")
    assert parsed.bad_lines == 0
