"""The example of tuning, as a user runs it: a sweep, its best model, a web service that answers."""

import re

import pytest

pytestmark = pytest.mark.frameworks


@pytest.fixture
def printed(submit, runyard):
    yield submit("hyperdrive")
    runyard("services", "delete", "hyperdrive-digits", "--yes")


def test_the_best_of_a_sweep_is_registered_deployed_and_knows_a_seven(printed, runyard):
    (best,) = re.findall(r"^Registered hyperdrive-digits version 1 of (HD_\S+)$", printed, re.MULTILINE)
    assert "{'predict': [7]}" in printed

    table = printed.partition("The best five:\n")[2].splitlines()[:5]
    scores = [float(row.split()[2]) for row in table]
    assert table[0].startswith(best + " ")
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0.95

    children = re.findall(r"^HD_\S+_\d+ ", runyard("runs", "list", "--children", "-n", "50"), re.MULTILINE)
    assert len(children) == 16
    assert "Canceled" in runyard("sweeps", "show", best.rpartition("_")[0])
