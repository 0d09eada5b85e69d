"""A supervisor that has finished a task takes another one: what it leaves behind, and what ends it."""

import fcntl
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from runyard.compute.local.kind import LocalEngine
from runyard.core.plan_json import plan_to_json
from runyard.node import supervisor_pool
from runyard.node.agent_client import AgentClient, NodeTasks
from runyard.node.home_socket import ask_agent
from runyard.node.processes.event_loop import EventLoop, now
from runyard.node.processes.procfs import identify
from runyard.node.supervisor_pool import NextTask, SupervisorPool, carry_out_tasks, open_channel
from runyard.node.task_folder import TaskFolder
from tests.node.conftest import a_plan, a_rank, is_running
from tests.node.recording_service import RecordingService

SAYS_PARENT = "import os; open('outputs/of', 'w').write(str(os.getppid()))"
"""The parent of a script is its supervisor."""
WAITS = "import os, time\nprint(os.getppid(), flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)"


def idle(home: Path) -> list[int]:
    return ask_agent(home, {"op": "status"})["idle"]


def run_one(submit, service, home, number: int, script: str = SAYS_PARENT, **fields) -> int:
    """Run a script to its end, wait until its supervisor is idle again, and return that supervisor's pid."""
    attempt = f"run{number}.1"
    submit(script, attempt_id=attempt, **fields)
    service.ended(attempt)
    service.wait_for(lambda: not TaskFolder(home, attempt).root.exists())
    return idle_after(service, home)


def idle_after(service, home) -> int:
    pids = service.wait_for(lambda: idle(home))
    assert len(pids) == 1
    return pids[0]


def descriptors(pid: int) -> list[str]:
    return sorted(os.readlink(entry).partition("[")[0] for entry in Path(f"/proc/{pid}/fd").iterdir())


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def await_idle(loop: EventLoop, pool: SupervisorPool) -> None:
    while not pool.idle:
        loop.wait(None)  # the end of another test's process wakes it, too


@pytest.mark.slow
def test_twenty_tasks_leave_no_descriptor_and_no_memory_in_their_supervisor(submit, service, home):
    with_upload = "import os; print(os.getcwd()); open('outputs/x', 'w').write('x')"
    first = run_one(submit, service, home, 0, with_upload)
    for number in range(1, 6):
        assert run_one(submit, service, home, number, with_upload) == first
    open_before, bytes_before = descriptors(first), resident_bytes(first)
    folder, threads = os.readlink(f"/proc/{first}/cwd"), os.listdir(f"/proc/{first}/task")
    for number in range(6, 21):
        assert run_one(submit, service, home, number, with_upload) == first
    assert descriptors(first) == open_before
    assert resident_bytes(first) - bytes_before < 1 << 20
    assert os.readlink(f"/proc/{first}/cwd") == folder
    assert os.listdir(f"/proc/{first}/task") == threads == [str(first)]
    assert [report["outcome"] for report in service.reports if report["state"] == "ended"] == ["completed"] * 21


def test_a_later_task_reports_to_the_service_that_there_is_now(submit, service, home):
    """The one before still answers on the connection of the task before."""
    run_one(submit, service, home, 1)
    other = RecordingService(home)
    other.start()
    try:
        submit(SAYS_PARENT, attempt_id="run2.1")
        assert other.ended("run2.1")["error"], "it has not the script"
        assert service.report("ended", "run2.1") is None
    finally:
        other.stop()


def test_a_failed_script_does_not_end_its_supervisor(submit, service, home):
    first = run_one(submit, service, home, 1, "raise SystemExit(3)")
    assert run_one(submit, service, home, 2) == first
    assert service.ended("run1.1")["exit_code"] == 3
    assert service.files["outputs/of"] == str(first).encode()


@pytest.mark.parametrize(
    "change",
    [
        "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (300, 300))",
        "os.setpriority(os.PRIO_PROCESS, os.getppid(), 7)",
        "os.sched_setscheduler(os.getppid(), os.SCHED_BATCH, os.sched_param(0))",
        "open(f'/proc/{os.getppid()}/oom_score_adj', 'w').write('321')",
    ],
)
def test_what_a_script_sets_on_its_supervisor_does_not_reach_the_next_script(submit, service, home, change):
    submit(f"import os, resource; open('outputs/of', 'w').write(str(os.getppid())); {change}")
    assert service.ended("run1.1")["outcome"] == "completed"
    first = int(service.files["outputs/of"])
    service.wait_for(lambda: not is_running(first))
    assert run_one(submit, service, home, 2) != first


def test_nothing_of_a_task_is_open_in_an_idle_supervisor(submit, service, home):
    pid = run_one(submit, service, home, 1)
    assert not [file for file in descriptors(pid) if "run1" in file]


def test_tasks_at_the_same_time_have_a_supervisor_each(submit, service, home):
    first = run_one(submit, service, home, 1)
    for number in (2, 3):
        submit(WAITS, attempt_id=f"run{number}.1")
    folders = [TaskFolder(home, f"run{number}.1") for number in (2, 3)]
    pids = {service.wait_for(folder.supervisor).pid for folder in folders}
    assert len(pids) == 2
    assert first in pids
    for number, folder in zip((2, 3), folders, strict=True):
        service.wait_for(lambda folder=folder: folder.work.is_dir())
        (folder.work / "go").touch()
        assert service.ended(f"run{number}.1")["outcome"] == "completed"
    service.wait_for(lambda: set(idle(home)) == pids)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_idle_supervisor_that_is_killed_or_stopped_gets_no_task(submit, service, home, number):
    first = run_one(submit, service, home, 1)
    os.kill(first, number)
    submit(SAYS_PARENT, attempt_id="run2.1")
    assert service.ended("run2.1")["outcome"] == "completed"
    assert service.files["outputs/of"] != str(first).encode()
    service.wait_for(lambda: not is_running(first))


@pytest.mark.parametrize("is_killed", [True, False])
def test_idle_supervisors_end_with_their_agent(submit, service, home, is_killed):
    pid = run_one(submit, service, home, 1)
    if is_killed:
        os.kill(ask_agent(home, {"op": "status"})["pid"], signal.SIGKILL)
    else:
        ask_agent(home, {"op": "exit"})
    service.wait_for(lambda: not is_running(pid))


def test_idle_supervisors_end_with_the_guard_of_their_agent(service, home):
    with subprocess.Popen(["sleep", "300"]) as node:
        agent = AgentClient(home, guard=identify(node.pid))
        tasks = NodeTasks(home, agent)
        tasks.write_plan("run1.1", plan_to_json(a_plan(service, "")))
        tasks.start("run1.1")
        assert service.ended("run1.1")["outcome"] == "completed"
        pid = idle_after(service, home)
        node.kill()
    service.wait_for(lambda: not is_running(pid))


def test_a_supervisor_whose_agent_has_ended_finishes_its_task_and_exits(submit, service, home):
    pid = run_one(submit, service, home, 1)
    submit(WAITS, attempt_id="run2.1")
    folder = TaskFolder(home, "run2.1")
    assert service.wait_for(folder.supervisor).pid == pid
    os.kill(ask_agent(home, {"op": "status"})["pid"], signal.SIGKILL)
    LocalEngine(home).warm()
    (folder.work / "go").touch()
    assert service.ended("run2.1")["outcome"] == "completed"
    service.wait_for(lambda: not is_running(pid))
    assert run_one(submit, service, home, 3) != pid


def test_a_supervisor_killed_in_a_later_task_is_replaced(submit, service, home):
    pid = run_one(submit, service, home, 1)
    submit(WAITS, attempt_id="run2.1")
    folder = TaskFolder(home, "run2.1")
    service.wait_for(lambda: service.report("running", "run2.1"))
    os.kill(pid, signal.SIGKILL)
    service.wait_for(lambda: (found := folder.supervisor()) is not None and found.pid != pid)
    (folder.work / "go").touch()
    assert service.ended("run2.1")["outcome"] == "completed"


def test_the_supervisor_of_a_canceled_task_exits(submit, service, home):
    pid = run_one(submit, service, home, 1)
    submit(WAITS, attempt_id="run2.1")
    service.wait_for(lambda: service.report("running", "run2.1"))
    ask_agent(home, {"op": "cancel", "part": "run2.1", "grace": 0})
    assert service.ended("run2.1")["outcome"] == "canceled"
    service.wait_for(lambda: not is_running(pid))


def test_the_supervisor_of_a_distributed_task_exits(submit_to_nodes, service, home):
    submit_to_nodes("", [a_rank(0), a_rank(1)])
    pid = service.wait_for(TaskFolder(home, "run1.1").supervisor).pid
    assert service.ended("run1.1")["outcome"] == "completed"
    service.wait_for(lambda: not is_running(pid))


def test_a_task_in_the_hands_of_a_dead_supervisor_can_be_locked_again(tmp_path):
    """Killed after the agent has sent the task, before the supervisor has read it."""
    loop = EventLoop()
    pool = SupervisorPool(loop, lambda pid: None, lambda pid: False)
    pid, told = fork_idle(pool, reads=False)
    await_idle(loop, pool)
    assert pool.idle == [pid]
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert pool.hand_over(NextTask("run1.1", lock, None)) == pid
    os.close(lock)
    assert not can_lock(tmp_path / "lock"), "the message holds it"
    os.close(told)
    while identify(pid) is not None:
        loop.wait(0.1)
    pool.remove(pid)
    assert pid in loop.take_ended()
    assert can_lock(tmp_path / "lock")
    loop.close()


def test_a_supervisor_that_was_stopped_before_it_read_its_task_is_killed(tmp_path, monkeypatch):
    loop = EventLoop()
    pool = SupervisorPool(loop, lambda pid: None, lambda pid: False)
    pid, told = fork_idle(pool, reads=False)
    await_idle(loop, pool)
    assert pool.hand_over(NextTask("run1.1", os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR), None)) == pid
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    pool.check()
    assert is_running(pid), "it gets a moment"
    monkeypatch.setattr(supervisor_pool, "now", lambda: now() + 60)
    pool.check()
    while identify(pid) is not None:
        loop.wait(0.1)
    pool.remove(pid)
    assert pool.next_times() == []
    os.close(told)
    loop.close()


def test_a_supervisor_takes_a_limited_number_of_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor_pool, "_MOST_TASKS", 3)
    own, other = open_channel()
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    for number in range(2, 5):
        socket.send_fds(own, [b'{"part": "run%d.1", "sdk": "/sdk"}' % number], [lock])
    seen = []
    carry_out_tasks(NextTask("run1.1", lock, None), other, lambda task: bool(seen.append(task.part) or True))
    assert seen == ["run1.1", "run2.1", "run3.1"]


def test_a_supervisor_without_an_agent_takes_no_other_task():
    own, other = open_channel()
    own.close()
    seen = []
    carry_out_tasks(NextTask("run1.1", -1, None), other, lambda task: bool(seen.append(task.part) or True))
    assert seen == ["run1.1"]


def test_superfluous_supervisors_are_let_go(monkeypatch):
    loop = EventLoop()
    pool = SupervisorPool(loop, lambda pid: None, lambda pid: False)
    most = pool._most_idle
    pids = [fork_idle(pool, reads=True)[0] for _ in range(most + 1)]
    while sum(identify(pid) is not None for pid in pids) > most or len(pool.idle) < most:
        loop.wait(0.1)
    assert all(identify(pid) is not None for pid in pool.idle)
    monkeypatch.setattr(supervisor_pool, "now", lambda: pool.next_times()[0] + 60)
    pool.check()
    while any(identify(pid) is not None for pid in pids):
        loop.wait(0.1)
    assert (pool.idle, pool.next_times()) == ([], [])
    loop.close()


def fork_idle(pool: SupervisorPool, *, reads: bool) -> tuple[int, int]:
    """Fork a process that says that it has finished. It waits for a task, or only for the end of a pipe."""
    own, other = open_channel()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        own.close()
        pool.close()
        os.close(write_end)
        if reads:
            carry_out_tasks(NextTask("run1.1", -1, None), other, lambda task: True)
        else:
            other.sendall(b"finished")
            os.read(read_end, 1)
        os._exit(0)
    other.close()
    os.close(read_end)
    pool.add(pid, own)
    return pid, write_end


def can_lock(file: Path) -> bool:
    descriptor = os.open(file, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
