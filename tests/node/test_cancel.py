import os
import signal
from datetime import timedelta

from runyard.core.ports.engine import ticket_for
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.node.task_folder import TaskFolder
from tests.node.conftest import a_rank, driver_log, is_running, pid_from, rank_log

TREE = """
import os, signal, sys, time
def sleeper(name):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b'%s=%d\\n' % (name, os.getpid()))  # at once: print writes the end of a line by itself
    time.sleep(600)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        sleeper(b'grandchild')
    os._exit(0)
sleeper(b'script')
"""


def test_cancel_ends_the_whole_tree_even_what_ignores_it_in_another_session(submit, service, engine):
    ticket = submit(TREE)
    script, grandchild = pid_from(service, "script"), pid_from(service, "grandchild")
    engine.cancel(ticket, grace=timedelta(seconds=0.2))
    assert service.ended()["outcome"] == "canceled"
    assert not is_running(script)
    assert not is_running(grandchild)


def test_a_script_may_use_the_grace_to_save_its_work(submit, service, engine):
    ticket = submit(
        "import signal, sys, time\n"
        "def stop(*_):\n"
        "    open('outputs/saved', 'w').write('x'); print('saved'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('ready')\n"
        "time.sleep(600)\n"
    )
    service.wait_for(lambda: "ready" in driver_log(service))
    engine.cancel(ticket, grace=timedelta(seconds=10))
    assert service.ended()["outcome"] == "canceled"
    assert service.files["outputs/saved"] == b"x"
    assert "saved" in driver_log(service)


def test_the_services_wish_in_an_answer_is_a_cancel_too(submit, service):
    service.answers_cancel = True
    submit("import time; time.sleep(600)")
    assert service.ended()["outcome"] == "canceled"


def test_cancel_works_while_the_environment_is_built(submit, service, engine):
    ticket = submit("pass", environment=EnvironmentSpec(python="3.11", requirements=("numpy",)))
    service.wait_for(lambda: service.report("preparing"))
    engine.cancel(ticket, grace=timedelta(seconds=0.2))
    ended = service.ended()
    assert (ended["outcome"], ended["phase"]) == ("canceled", "Preparing")


def test_children_that_outlive_their_script_are_ended(submit, service):
    submit(
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); print('child=%d' % os.getpid(), flush=True); time.sleep(600)\n"
        "time.sleep(0.1)\n"
    )
    child = pid_from(service, "child")
    assert service.ended()["outcome"] == "completed"
    assert not is_running(child)


def test_a_cancel_of_something_unknown_is_quiet(engine):
    engine.cancel(ticket_for("nothing.1", 1), grace=timedelta(0))


def test_a_frozen_supervisor_keeps_no_process_from_ending(submit, service, engine, home):
    ticket = submit(TREE)
    script, grandchild = pid_from(service, "script"), pid_from(service, "grandchild")
    os.kill(TaskFolder(home, "run1.1").supervisor().pid, signal.SIGSTOP)
    engine.cancel(ticket, grace=timedelta(seconds=0.2))
    ended = service.ended()
    assert ended["outcome"] == "canceled"
    assert "did not stop" in ended["warnings"][0]
    assert not is_running(script)
    assert not is_running(grandchild)


def test_a_frozen_supervisor_is_not_taken_for_the_cause_of_a_failure(submit_to_nodes, service, home, tmp_path):
    script = f"""
import os, sys, time
print('pid=%d' % os.getpid(), flush=True)
while not (os.environ['RUNYARD_RANK'] == '0' and os.path.exists({str(tmp_path / "go")!r})):
    time.sleep(0.01)
sys.exit(7)
"""
    submit_to_nodes(script, [a_rank(0, RUNYARD_RANK="0")], [a_rank(1, RUNYARD_RANK="1")])
    other = pid_from(service, "pid", lambda: rank_log(service, 1))
    os.kill(TaskFolder(home, "run1.1-1").supervisor().pid, signal.SIGSTOP)
    (tmp_path / "go").touch()
    first, second = service.all_ended(2)
    assert (first["outcome"], first["rank"], first["exit_code"]) == ("failed", 0, 7)
    assert (second["outcome"], second["error"], second["lost"]) == ("failed", None, False)
    assert not is_running(other)
