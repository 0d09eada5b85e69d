import pytest
from seeds.expectations import Expectation, Unmet, read_expectations


class FinishedRun:
    id = "run_1"

    def __init__(self, **metrics):
        self._metrics = metrics
        self._logs = {}

    def with_logs(self, logs):
        self._logs = logs
        return self

    def get_details_with_logs(self):
        return {"logFiles": self._logs}

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


def test_every_distributed_estimator_must_show_two_nodes_at_work():
    for page, blocks in {"000": (11, 12), "001": (12, 13), "004": (11, 12)}.items():
        for block in blocks:
            wanted = {expectation.metric: expectation for expectation in read_expectations(page)[block]}
            assert wanted["working_folder"].different == 2, (page, block)
            assert wanted["accuracy"].at_least == 0.9, (page, block)


def test_ranks_can_be_told_apart_and_compared_by_what_they_logged(tmp_path):
    ranks = FinishedRun(rank=[1, 0], weights=[3.5, 3.5])
    Expectation(metric="rank", different=2).check([ranks], tmp_path)
    Expectation(metric="weights", count=2, different=1).check([ranks], tmp_path)
    with pytest.raises(Unmet, match=r"logged 'weights' \[3.5, 3.5\]: not 2 different values"):
        Expectation(metric="weights", different=2).check([ranks], tmp_path)
    with pytest.raises(Unmet, match="None: not 1 different values"):
        Expectation(metric="loss", different=1).check([ranks], tmp_path)


def test_each_rank_must_have_written_its_log(tmp_path):
    run = FinishedRun().with_logs({"logs/0.txt": "Rank 0", "logs/1.txt": ""})
    Expectation(logs=("logs/0.txt",)).check([run], tmp_path)
    for silent in ("logs/1.txt", "logs/2.txt"):
        with pytest.raises(Unmet, match=f"no text in {silent}"):
            Expectation(logs=("logs/0.txt", silent)).check([run], tmp_path)
    with pytest.raises(Unmet, match="submitted no run"):
        Expectation(logs=("logs/0.txt",)).check([], tmp_path)
