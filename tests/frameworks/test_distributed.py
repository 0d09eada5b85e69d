"""The examples of training on several nodes, on two nodes of this machine."""

import pytest

from tests.frameworks.printed import last_value, run_id

OF_TF1 = ["[rank 0] This is worker 0 of", "[rank 1] This is worker 1 of", "[rank 2 ps] This is ps 0 of"]
OF_TF2 = ["[rank 0] This is chief 0 of", "[rank 1 server] This is worker 0 of", "[rank 2 ps] This is ps 0 of"]
OF_RANKS = ["[rank 0] Rank 0 of 2 trains", "[rank 1] Rank 1 of 2 trains"]


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("example", "enough", "beginnings"),
    [
        ("ddp_torch", 0.96, OF_RANKS),
        ("parameter_server_tf1", 0.95, OF_TF1),
        ("parameter_server_tf2", 0.94, OF_TF2),
        ("cntk_mpi", 0.96, OF_RANKS),
        ("chainermn_mnist", 0.96, OF_RANKS),
        ("horovod_tf1", 0.96, OF_RANKS),
    ],
)
def test_the_example_trains_on_two_nodes(submit, runyard, example, enough, beginnings):
    printed = submit("distributed", example)
    assert last_value(printed, "accuracy") > enough
    assert f"Registered {example} version 1" in printed
    logs = runyard("runs", "logs", run_id(printed), "--all").splitlines()
    for beginning in beginnings:
        assert any(line.startswith(beginning) for line in logs), logs
