import json

import numpy
import pytest

from runyard_sdk.scoring.answers import Refused, answer_json
from runyard_sdk.scoring.scorers.batching import LARGEST_TOGETHER, RowsTogether, answer_in_groups


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


def test_rows_are_computed_in_one_call_once_that_is_proved():
    model = Model(lambda rows: rows * 2)
    together = RowsTogether(model)
    for _ in range(2):
        assert _outputs(together, _job([1, 2]), _job([3, 4], [5, 6])) == [[[2, 4]], [[6, 8], [10, 12]]]
    assert model.rows == [1, 2, 3, 3]


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
    for _ in range(3):
        assert _outputs(together, *jobs) == alone


def test_equal_requests_are_put_together_too():
    model = Model(lambda rows: rows * 2)
    together = RowsTogether(model)
    _outputs(together, _job([1, 2]), _job([1, 2]))
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
