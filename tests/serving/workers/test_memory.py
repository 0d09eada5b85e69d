import os
import subprocess
import sys

from runyard.serving.workers.process_tree import cpu_seconds, machine_limit_bytes, peak_bytes, resident_bytes, tree_of

WITH_A_CHILD = """
import subprocess, sys, threading
held = bytearray(b"x" * (40 << 20))
def start():
    global child
    child = subprocess.Popen([sys.executable, "-c", "held = b'x' * (30 << 20); print(1, flush=True); input()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
thread = threading.Thread(target=start)
thread.start(); thread.join()
child.stdout.readline()
print(child.pid, flush=True)
input()
"""


def test_a_tree_counts_what_a_thread_has_started_too() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WITH_A_CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert tree_of(parent.pid) == [parent.pid, child]
        assert 70 << 20 < resident_bytes([parent.pid, child]) < 150 << 20
        assert peak_bytes(parent.pid) >= 40 << 20
        assert cpu_seconds([parent.pid, child]) > 0
        parent.kill()
        os.kill(child, 9)


def test_what_has_gone_holds_nothing() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert (resident_bytes([gone.pid]), peak_bytes(gone.pid), cpu_seconds([gone.pid])) == (0, 0, 0)
    assert tree_of(gone.pid) == [gone.pid]


def test_most_of_the_machine_is_less_than_all_of_it() -> None:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < machine_limit_bytes() < total
