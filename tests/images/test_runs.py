"""A script in an image is a run like any other: what it prints, writes and leaves, and how it ends."""

from datetime import timedelta

import pytest

from runyard.core.records.launch_plan import ContainerRequest, EnvironmentSpec, ImageSpec, VolumeRequest
from runyard.node.processes.procfs import processes_with_variable
from tests.images.parts import fixtures
from tests.node.conftest import a_rank, driver_log, rank_log

pytestmark = pytest.mark.images
home, service, nodes = fixtures

LOOKS_AROUND = """
import os, sys
print('interpreter', sys.executable)
print('arguments', sys.argv[1:])
print('in a container', os.getppid() == 1)
print('home is there', os.path.exists(os.environ['RUNYARD_HOME'] + '/agent.sock'))
print('working folder', os.path.basename(os.getcwd()), os.listdir('.'))
import azureml.core
open('outputs/model.bin', 'w').write('weights')
open(os.environ['RUNYARD_JOURNALS'] + '/run1~0-1-a.jsonl', 'a').write('[1]\\n')
"""
WAITS = """
import os, signal, sys, time
def hear(*_):
    print('heard', flush=True)
    open('outputs/last', 'w').write('x')
    sys.exit(0)
if len(sys.argv) > 1:
    signal.signal(signal.SIGTERM, hear)
print('waits', flush=True)
while not os.path.exists('go'): time.sleep(0.01)
"""


def test_a_script_runs_in_the_image_and_what_it_writes_is_delivered(nodes, service):
    nodes.submit(LOOKS_AROUND, "$RUNYARD_ATTEMPT", "two words", "$NOT_THERE")
    ended = nodes.ended()
    said = driver_log(service)
    assert (ended["outcome"], ended["exit_code"]) == ("completed", 0), said
    assert "interpreter /usr/bin/python3" in said
    assert "arguments ['run1.1', 'two words', '$NOT_THERE']" in said
    assert "in a container True" in said
    assert "home is there False" in said
    assert "working folder work" in said
    assert service.files["outputs/model.bin"] == b"weights"
    assert service.journals["run1~0-1-a"] == b"[1]\n"
    assert nodes.containers() == []


def test_lines_come_while_the_script_runs(nodes, service, home):
    nodes.submit(WAITS)
    service.wait_for(lambda: "waits" in driver_log(service))
    assert len(nodes.containers()) == 1
    nodes.let_go()
    assert nodes.ended()["outcome"] == "completed"


@pytest.mark.parametrize(
    ("code", "exit_code", "signal"),
    [
        ("sys.exit(3)", 3, None),
        ("sys.exit(137)", 137, None),
        ("os.kill(os.getpid(), 11)", 139, 11),
        ("os.kill(os.getpid(), 9)", 137, 9),
    ],
)
def test_the_exit_code_or_signal_is_the_scripts_own(nodes, code, exit_code, signal):
    nodes.submit(f"import os, sys\n{code}")
    ended = nodes.ended()
    assert (ended["outcome"], ended["exit_code"], ended["signal"]) == ("failed", exit_code, signal)
    assert nodes.containers() == []


def test_what_a_script_raised_is_the_error(nodes):
    nodes.submit("raise ValueError('no such column')")
    assert nodes.ended()["error"]["message"] == "User program failed with ValueError: no such column"


def test_a_canceled_script_hears_of_it_and_has_its_grace(nodes, service):
    ticket = nodes.submit(WAITS, "listens")
    service.wait_for(lambda: "waits" in driver_log(service))
    nodes.engine.cancel(ticket, grace=timedelta(seconds=20))
    assert nodes.ended()["outcome"] == "canceled"
    assert driver_log(service).count("heard") == 1
    assert service.files["outputs/last"] == b"x"
    assert nodes.containers() == []


def test_a_script_that_does_not_listen_is_killed_after_its_grace(nodes, service, home):
    ticket = nodes.submit("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAITS)
    service.wait_for(lambda: "waits" in driver_log(service))
    nodes.engine.cancel(ticket, grace=timedelta(seconds=0.3))
    assert nodes.ended()["outcome"] == "canceled"
    assert nodes.containers() == []
    assert processes_with_variable("RUNYARD_PART", "run1.1", home=home) == set()


def test_what_a_script_leaves_running_ends_with_the_run(nodes, service, home):
    nodes.submit("import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True); print('done')")
    assert nodes.ended()["outcome"] == "completed"
    assert processes_with_variable("RUNYARD_PART", "run1.1", home=home) == set()
    assert nodes.containers() == []


def test_a_script_whose_time_is_up_is_ended_and_its_log_says_what_it_did(nodes, service):
    nodes.submit("import time\ndef never_comes():\n    time.sleep(600)\nnever_comes()", max_seconds=2)
    ended = nodes.ended()
    assert "took longer than max_run_duration_seconds (2)" in ended["error"]["message"]
    assert "never_comes (train.py:3)" in driver_log(service)
    assert nodes.containers() == []


def test_a_script_that_outgrows_its_container_is_told_so(nodes):
    nodes.submit("held = [bytearray(1 << 20) for _ in range(400)]", container=ContainerRequest(memory_bytes=64 << 20))
    ended = nodes.ended()
    assert (ended["oom"], ended["exit_code"], ended["signal"]) == (True, 137, 9)
    assert "out of memory, since its container may use 64 MiB" in ended["error"]["message"]


def test_docker_arguments_reach_the_container(nodes, service, tmp_path):
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "note").write_text("hello")
    wish = ContainerRequest(
        shm_bytes=80 << 20,
        hostname="",
        variables=(("FROM_ARGUMENTS", "yes"),),
        volumes=(VolumeRequest(str(tmp_path / "share"), "/share", is_read_only=True),),
    )
    nodes.submit(
        "import os\nfound = os.statvfs('/dev/shm')\nprint('shm', found.f_blocks * found.f_frsize >> 20)\n"
        "print(os.environ['FROM_ARGUMENTS'], open('/share/note').read(), os.access('/share', os.W_OK))",
        container=wish,
    )
    assert nodes.ended()["outcome"] == "completed"
    assert "shm 80" in driver_log(service)
    assert "yes hello False" in driver_log(service)


def test_another_user_of_the_image_writes_outputs_too(nodes, service):
    nodes.submit(
        "import os\nprint('user', os.getuid())\n"
        "open('outputs/own', 'w').write('x')\nopen(os.environ['HOME'] + '/f', 'w')",
        container=ContainerRequest(user="1234:1234"),
    )
    assert nodes.ended()["outcome"] == "completed", driver_log(service)
    assert "user 1234" in driver_log(service)
    assert service.files["outputs/own"] == b"x"


def test_variables_of_the_machine_stay_outside_and_those_of_the_run_come_in(nodes, service):
    nodes.submit(
        "import os\nprint(os.environ['PATH'])\n"
        "print([os.environ.get(name) for name in ('TMPDIR', 'SSL_CERT_FILE', 'LANG', 'OWN')])",
        env={"PATH": "/of/the/machine", "TMPDIR": "/of/mine", "SSL_CERT_FILE": "/mine", "LANG": "C.UTF-8", "OWN": "1"},
    )
    assert nodes.ended()["outcome"] == "completed"
    said = driver_log(service)
    assert "[None, None, 'C.UTF-8', '1']" in said
    assert "/of/the/machine" not in said


def test_the_processes_of_a_node_share_their_memory_and_each_has_its_log(nodes, service):
    script = """
import os, time
rank = os.environ['RUNYARD_RANK']
open('/dev/shm/of-' + rank, 'w').write(rank)
while len([name for name in os.listdir('/dev/shm') if name.startswith('of-')]) < 3: time.sleep(0.01)
print('rank', rank, 'sees', sorted(os.listdir('/dev/shm')), flush=True)
"""
    nodes.submit_to(nodes.plan(script), [a_rank(0), a_rank(1), a_rank(2)])
    assert nodes.ended()["outcome"] == "completed"
    for rank in range(3):
        assert f"rank {rank} sees ['of-0', 'of-1', 'of-2']" in rank_log(service, rank)
    assert nodes.containers() == []


def test_the_first_rank_that_fails_ends_the_others(nodes, service):
    script = (
        "import os, time\nif os.environ['RUNYARD_RANK'] == '1': raise ValueError('rank 1 is unwell')\ntime.sleep(600)"
    )
    nodes.submit_to(nodes.plan(script), [a_rank(0), a_rank(1)])
    ended = nodes.ended()
    assert (ended["outcome"], ended["rank"]) == ("failed", 1)
    assert "rank 1 is unwell" in ended["error"]["message"]
    assert nodes.containers() == []


def test_a_parameter_server_goes_on_until_the_workers_have_ended(nodes, service):
    script = "import os, time\nprint('here', flush=True)\nif os.environ['RUNYARD_RANK'] == '1': time.sleep(600)"
    nodes.submit_to(nodes.plan(script), [a_rank(0)], [a_rank(1, role="ps")])
    assert [report["outcome"] for report in service.all_ended(2)] == ["completed", "completed"]
    assert nodes.containers() == []


def test_nodes_of_one_machine_share_their_outputs(nodes, service):
    script = "import os\nopen('outputs/of-' + os.environ['RUNYARD_RANK'], 'w').write('x')"
    nodes.submit_to(nodes.plan(script), [a_rank(0)], [a_rank(1)])
    assert [report["outcome"] for report in service.all_ended(2)] == ["completed", "completed"]
    assert {"outputs/of-0", "outputs/of-1"} <= set(service.files)


def test_an_interpreter_that_is_not_in_the_image_is_named(nodes):
    nodes.python = "/opt/none/bin/python"
    nodes.submit("print(1)")
    ended = nodes.ended()
    assert ended["outcome"] == "failed"
    assert "/opt/none/bin/python" in ended["error"]["message"]
    assert nodes.containers() == []


def test_a_node_that_shares_no_files_runs_it_the_same_way(nodes, service):
    nodes.submit("open('outputs/a', 'w').write('x'); print('here')", shares_files=False)
    assert nodes.ended()["outcome"] == "completed"
    assert "here" in driver_log(service)
    assert service.files["outputs/a"] == b"x"
    assert service.adopts == []


def test_a_node_that_shares_no_files_has_the_service_keep_the_lock_of_an_image(nodes, service):
    wished = EnvironmentSpec(python="3.11", image=ImageSpec(base=nodes.image))
    nodes.submit("import sys; print(sys.executable)", shares_files=False, environment=wished)
    ended = nodes.ended()
    assert ended["outcome"] == "completed", ended
    assert driver_log(service).startswith("/azureml-envs/")
    (kept,) = service.environments.values()
    assert "# base: sha256:" in kept["lock"]
