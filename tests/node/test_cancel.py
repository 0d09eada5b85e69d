from datetime import timedelta

from runyard.model.plan import EnvironmentSpec
from tests.node.conftest import driver_log, is_running, pid_from

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
    engine.cancel("nothing.1", grace=timedelta(0))
