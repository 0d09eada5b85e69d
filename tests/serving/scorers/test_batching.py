import json

import numpy
import pytest

from runyard_sdk.scoring.answers import Refused, answer_json
from runyard_sdk.scoring.scorers.batches import (
    GROUPS_BETWEEN_CHECKS,
    GROUPS_OF_THE_PROOF,
    LARGEST_TOGETHER,
    RowsTogether,
    answer_in_groups,
)


class Request:
    head = None

    def __init__(self, body):
        self.body = json.dumps(body).encode()


class Model:
    """Counts its calls and how many rows each of them had."""

    def __init__(self, compute):
        self._compute, self.rows = compute, []

    def __call__(self, key, inputs):
        self.rows.append(len(inputs[0]))
        return [self._compute(*inputs)]


def _answers(requests, answer_group):
    def read(request):
        value = json.loads(request.body)
        if value == "unreadable":
            raise Refused(422, "no")
        return (type(value).__name__,), value

    return [(status, json.loads(body)) for status, _, body in answer_in_groups(requests, read, answer_group)]


def test_answers_come_in_the_order_of_requests_whatever_their_groups():
    groups = []

    def answer(key, jobs):
        groups.append((key, jobs))
        return [answer_json(job) for job in jobs]

    answers = _answers([Request(value) for value in (1, "a", 2, "unreadable", "b")], answer)
    assert answers == [(200, 1), (200, "a"), (200, 2), (422, {"message": "no"}), (200, "b")]
    assert groups == [(("int",), [1, 2]), (("str",), ["a", "b"])]


def test_a_bad_request_spoils_no_other_of_its_group():
    def answer(key, jobs):
        if 2 in jobs:
            raise Refused(400, "two")
        return [answer_json(job) for job in jobs]

    assert _answers([Request(1), Request(2), Request(3)], answer) == [(200, 1), (400, {"message": "two"}), (200, 3)]


def test_what_is_nobodys_fault_is_raised_for_the_worker_to_tell():
    def answer(key, jobs):
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        _answers([Request(1), Request(2)], answer)


def test_a_large_request_is_computed_alone():
    sizes = []

    def answer(key, jobs):
        sizes.append(len(jobs))
        return [answer_json(0) for _ in jobs]

    _answers([Request("a"), Request("x" * LARGEST_TOGETHER), Request("b")], answer)
    assert sorted(sizes) == [1, 2]


def _job(*rows):
    return [numpy.array(rows, dtype=float)]


def _outputs(together, *jobs):
    return [outputs[0].tolist() for outputs in together.outputs(("model",), list(jobs))]


def _prove(together, *jobs):
    for _ in range(GROUPS_OF_THE_PROOF):
        _outputs(together, *jobs)


def test_rows_are_computed_in_one_call_once_that_is_proved():
    model = Model(lambda rows: rows * 2)
    together = RowsTogether(model)
    jobs = [_job([1, 2]), _job([3, 4], [5, 6])]
    for group in range(GROUPS_OF_THE_PROOF + 1):
        model.rows.clear()
        assert _outputs(together, *jobs) == [[[2, 4]], [[6, 8], [10, 12]]]
        # Two requests and a stranger, alone and together; once it is proved, the two together.
        assert model.rows == ([1, 2, 1, 4] if group < GROUPS_OF_THE_PROOF else [3])


def test_what_a_library_promises_needs_no_proof():
    model = Model(lambda rows: rows * 2)
    _outputs(RowsTogether(model, is_row_by_row=True), _job([1, 2]), _job([3, 4]))
    assert model.rows == [2]


def _brightest_is_one(rows):
    """As it is done to images: alike for all of them while each has a pixel of full brightness."""
    return rows / max(rows.max(), 1)


def test_a_model_that_mixes_rows_of_unlike_sizes_is_found_out_by_alike_ones():
    together = RowsTogether(Model(_brightest_is_one))
    bright, dark = _job([0.0, 255.0]), _job([0.0, 51.0])
    _prove(together, bright, bright)
    assert _outputs(together, bright, dark) == [[[0.0, 1.0]], [[0.0, 1.0]]]


def _from_whole_numbers(rows):
    return rows * (1.0 if (rows < 100).all() else 2.0)


def test_a_disagreement_that_comes_late_is_found_and_is_final(capsys):
    model = Model(_from_whole_numbers)
    together = RowsTogether(model)
    small, large = [numpy.array([[1, 2]])], [numpy.array([[1, 100]])]
    _prove(together, small, [numpy.array([[3, 4]])])
    for _ in range(GROUPS_BETWEEN_CHECKS - 1):
        _outputs(together, small, small)
    assert capsys.readouterr().err == ""
    assert _outputs(together, small, large) == [[[1, 2]], [[2, 200]]]
    assert "gave other results than alone. Each is computed alone from now on." in capsys.readouterr().err
    model.rows.clear()
    _outputs(together, small, small)
    assert model.rows == [1, 1]


def test_a_proved_model_is_looked_at_again_now_and_then_at_little_cost():
    model = Model(lambda rows: rows * 2)
    together = RowsTogether(model)
    jobs = [_job([at, at + 1]) for at in range(64)]
    _prove(together, *jobs)
    model.rows.clear()
    for _ in range(GROUPS_BETWEEN_CHECKS):
        _outputs(together, *jobs)
    assert sorted(model.rows) == [1] * 4 + [64] * GROUPS_BETWEEN_CHECKS


@pytest.mark.parametrize(("share", "is_joined"), [(1e-7, True), (1e-4, False)])
def test_results_agree_to_the_last_bits_of_their_scale(share, is_joined):
    model = Model(lambda rows: 1000.0 + share * 1000.0 * len(rows) + rows * 0)
    together = RowsTogether(model)
    jobs = [_job([1.0, 2.0]), _job([3.0, 4.0])]
    _prove(together, *jobs)
    model.rows.clear()
    _outputs(together, *jobs)
    assert model.rows == ([2] if is_joined else [1, 1])


def test_a_model_that_takes_one_row_at_a_time_is_given_one(capsys):
    def one_row(rows):
        if len(rows) > 1:
            raise ZeroDivisionError("one row, please")
        return rows

    together = RowsTogether(Model(one_row))
    for _ in range(2):
        assert _outputs(together, _job([1]), _job([2])) == [[[1]], [[2]]]
    assert capsys.readouterr().err.count("ZeroDivisionError: one row, please") == 1


@pytest.mark.parametrize(
    "mixing",
    [
        lambda rows: numpy.cumsum(rows, axis=0),
        lambda rows: rows - rows.mean(axis=0),
        lambda rows: rows.sum(axis=0),
        lambda rows: rows.sum(),
    ],
    ids=["a sequence", "a batch norm", "fewer rows", "one number"],
)
@pytest.mark.parametrize("other", [[7.0, 9.0], [1.0, 2.0]], ids=["unlike rows", "equal rows"])
def test_a_model_that_mixes_rows_is_asked_for_each_request_alone(mixing, other):
    together = RowsTogether(Model(mixing))
    jobs = [_job([1.0, 2.0]), _job(other)]
    alone = [numpy.asarray(mixing(job[0])).tolist() for job in jobs]
    for _ in range(GROUPS_OF_THE_PROOF + 2):
        assert _outputs(together, *jobs) == alone


def test_equal_requests_are_put_together_too():
    model = Model(lambda rows: rows * 2)
    together = RowsTogether(model)
    _prove(together, _job([1, 2]), _job([1, 2]))
    model.rows.clear()
    _outputs(together, _job([1, 2]), _job([1, 2]))
    assert model.rows == [2]


def test_inputs_of_unlike_numbers_of_rows_are_left_apart():
    model = Model(lambda rows, factor: rows * factor)
    together = RowsTogether(model)
    job = [numpy.ones((2, 3)), numpy.array([5.0])]
    for _ in range(2):
        assert _outputs(together, job, job) == [[[5.0] * 3] * 2] * 2
    assert model.rows == [2] * 4
