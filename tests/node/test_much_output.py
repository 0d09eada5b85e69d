import os
from datetime import timedelta

from tests.node.conftest import a_rank

_BYTES = (100 << 20) if os.environ.get("RUNYARD_FAULTS") == "full" else (12 << 20)
PRINTS = """
import os, sys
line = ('x' * 1023 + '\\n').encode()
for _ in range(int(sys.argv[1]) // 1024):
    os.write(1, line)
"""


def test_ranks_that_print_much_lose_nothing_and_are_held_in_no_memory(submit_to_nodes, service):
    submit_to_nodes(PRINTS, [a_rank(0, str(_BYTES)), a_rank(1, str(_BYTES))], [a_rank(2, str(_BYTES))])
    ended = [service.wait_for(lambda node=node: service.report("ended", node=node), seconds=120) for node in range(2)]
    assert [report["outcome"] for report in ended] == ["completed", "completed"]
    sizes = [len(service.logs[f"azureml-logs/70_driver_log_{rank}.txt"]) for rank in range(3)]
    assert sizes == [_BYTES] * 3
    assert service.largest_body <= 4 << 20


def test_a_rank_that_prints_without_end_does_not_keep_the_others_lines_back(submit_to_nodes, service, engine):
    script = """
import os, sys, time
if os.environ['RUNYARD_RANK'] == '1':
    print('a single line', flush=True)
    time.sleep(600)
while True:
    os.write(1, b'x' * 65536)
    time.sleep(0.002)
"""
    ticket = submit_to_nodes(script, [a_rank(0), a_rank(1)], [a_rank(2, "x")])
    service.wait_for(lambda: b"a single line" in service.logs.get("azureml-logs/70_driver_log_1.txt", b""), seconds=10)
    engine.cancel(ticket, grace=timedelta(seconds=0))
    service.wait_for(lambda: service.report("ended", node=0), seconds=60)
