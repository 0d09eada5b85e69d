import pytest
from seeds.expectations import Expectation, Unmet, read_expectations


class FinishedRun:
    id = "run_1"

    def __init__(self, **metrics):
        self._metrics = metrics

    def get_metrics(self):
        return self._metrics


def test_the_last_value_of_a_metric_counts(tmp_path):
    Expectation(metric="acc", at_least=0.9).check([FinishedRun(acc=[0.5, 0.95])], tmp_path)
    with pytest.raises(Unmet, match=r"reached 'acc' \[0.95, 0.5\], not 0.9"):
        Expectation(metric="acc", at_least=0.9).check([FinishedRun(acc=[0.95, 0.5])], tmp_path)


def test_a_metric_that_was_never_logged_is_unmet(tmp_path):
    with pytest.raises(Unmet, match="None, not 0"):
        Expectation(metric="acc", at_least=0.9).check([FinishedRun()], tmp_path)


def test_a_block_without_a_run_cannot_meet_a_metric(tmp_path):
    with pytest.raises(Unmet, match="submitted no run"):
        Expectation(metric="acc", at_least=0.9).check([], tmp_path)


def test_values_can_be_counted(tmp_path):
    Expectation(metric="rank", count=2).check([FinishedRun(rank=[0, 1])], tmp_path)
    with pytest.raises(Unmet, match="1 times, not 2"):
        Expectation(metric="rank", count=2).check([FinishedRun(rank=0)], tmp_path)


def test_a_file_must_be_there(tmp_path):
    wanted = Expectation(files=("model/m.npz",))
    with pytest.raises(Unmet, match=r"model/m\.npz"):
        wanted.check([], tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "m.npz").touch()
    wanted.check([], tmp_path)


def test_expectations_belong_to_a_block_of_a_page():
    assert [expectation.metric for expectation in read_expectations("002")[8]] == ["Accuracy"]
