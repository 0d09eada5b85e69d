import pytest

from runyard.models.profiles import RequestTimings


def test_percentiles_are_of_what_was_measured() -> None:
    latency = RequestTimings([float(number) for number in range(1, 1001)], [], 1.0).latency()
    assert latency["p50"] == 500
    assert latency["p99"] == 990
    assert latency["p99_9"] == 999
    assert latency["max"] == 1000
    assert latency["average"] == pytest.approx(500.5)


def test_one_request_is_every_percentile() -> None:
    assert set(RequestTimings([3.0], [], 1.0).latency().values()) == {3.0}


def test_without_a_good_answer_there_is_no_latency() -> None:
    timed = RequestTimings([], ["500: {}"], 1.0)
    assert timed.latency() == {}
    assert timed.count == 1
