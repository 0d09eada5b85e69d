import os

from runyard.core.ports.engine import NodeTaskPhase, ObservedTask
from runyard.core.records.data import DataForAttempt, NetworkRules, StoreAccess
from runyard.core.records.launch_plan import DataItem, EnvironmentSpec, NodePlan, ProcessSpec
from runyard.node.task_folder import TaskFolder
from tests.node.conftest import driver_log
from tests.node.recording_service import RecordingService


def error_message(service: RecordingService) -> str:
    return service.ended()["error"]["message"]


def test_a_script_runs_and_all_it_wrote_arrives(submit, service):
    submit(
        "import os, sys\n"
        "print('hello', sys.argv[1:])\n"
        "open('outputs/model.txt', 'w').write('weights')\n"
        "open(os.environ['RUNYARD_JOURNALS'] + '/run1~0-1-a.jsonl', 'w').write('[\"m\", \"a\", 1, null, 0]\\n')\n",
        "--rate",
        "0.1",
    )
    ended = service.ended()
    assert ended["outcome"] == "completed"
    assert ended["exit_code"] == 0
    assert "hello ['--rate', '0.1']" in driver_log(service)
    assert service.files["outputs/model.txt"] == b"weights"
    assert service.journals["run1~0-1-a"] == b'["m", "a", 1, null, 0]\n'
    reports = [report for report in service.reports if report["state"] != "finalizing"]
    assert [report["state"] for report in reports] in (["running", "ended"], ["ended"])  # a short script has one
    assert reports[0]["started_at"]


def test_the_folder_is_gone_once_the_end_is_acknowledged(submit, service, home, engine):
    ticket = submit("pass")
    service.ended()
    service.wait_for(lambda: not TaskFolder(home, str(ticket)).root.exists())
    assert engine.observe([ticket]) == {ticket: [ObservedTask(NodeTaskPhase.LOST)]}


def test_an_exit_code_is_told(submit, service):
    submit("import sys; print('last words'); sys.exit(3)")
    ended = service.ended()
    assert (ended["outcome"], ended["exit_code"], ended["signal"]) == ("failed", 3, None)
    assert ended["error"]["message"] == "User program failed with exit code 3."
    assert "last words" in ended["tail"]


def test_an_exception_is_named_with_its_text(submit, service):
    submit("import json\njson.loads('{')")
    assert error_message(service).startswith("User program failed with JSONDecodeError: Expecting property name")


def test_a_kill_from_outside_asks_about_memory(submit, service):
    submit("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    ended = service.ended()
    assert (ended["signal"], ended["exit_code"], ended["oom"]) == (9, 137, False)
    assert "killed by signal 9 (SIGKILL) (out of memory?)" in ended["error"]["message"]


def test_another_signal_is_named(submit, service):
    submit("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert "killed by signal 11 (SIGSEGV)." in error_message(service)


def test_a_missing_interpreter_is_a_clear_failure(submit, service):
    submit("pass", environment=EnvironmentSpec(python="/nowhere/python", user_managed=True))
    assert "/nowhere/python" in error_message(service)


def test_twenty_megabytes_of_output_arrive_whole_and_in_pieces(submit, service):
    submit("import sys\nfor n in range(20): sys.stdout.write(('%02d' % n) * (1 << 19))")
    service.ended()
    expected = b"".join(b"%02d" % n * (1 << 19) for n in range(20))
    assert service.logs["azureml-logs/70_driver_log.txt"] == expected
    assert service.largest_body <= 4 << 20


def test_binary_output_arrives_as_it_is(submit, service):
    submit("import sys; sys.stdout.buffer.write(bytes(range(256)) * 10)")
    service.ended()
    assert service.logs["azureml-logs/70_driver_log.txt"] == bytes(range(256)) * 10


def test_forked_children_have_journals_of_their_own(submit, service):
    submit(
        "import os\n"
        "def log(name):\n"
        "    with open('%s/run1~0-%d-x.jsonl' % (os.environ['RUNYARD_JOURNALS'], os.getpid()), 'w') as f:\n"
        '        f.write(\'["m", "%s", 1, null, 0]\\n\' % name)\n'
        "for child in range(3):\n"
        "    if os.fork() == 0:\n"
        "        log('child%d' % child); os._exit(0)\n"
        "log('parent')\n"
        "for child in range(3): os.wait()\n"
    )
    service.ended()
    lines = sorted(service.journals.values())
    assert [line.split(b'"')[3] for line in lines] == [b"child0", b"child1", b"child2", b"parent"]


def test_half_a_journal_line_is_not_sent(submit, service):
    submit("import os; open(os.environ['RUNYARD_JOURNALS'] + '/run1~0-1-a.jsonl', 'w').write('[1]\\n[2')")
    service.ended()
    assert service.journals["run1~0-1-a"] == b"[1]\n"


def test_two_thousand_outputs_arrive_in_few_requests(submit, service):
    submit(
        "import os\n"
        "for folder in range(20):\n"
        "    os.makedirs('outputs/%d/deep' % folder)\n"
        "    for n in range(100): open('outputs/%d/deep/%d' % (folder, n), 'w').write(str(n))\n"
    )
    service.ended()
    assert len(service.files) == 2000
    assert service.files["outputs/19/deep/99"] == b"99"
    assert len(service.adopts) < 100


def test_outputs_arrive_while_the_script_runs(submit, service):
    submit("open('outputs/early', 'w').write('x')\nimport time; time.sleep(600)", attempt_id="run1.1")
    service.wait_for(lambda: service.files.get("outputs/early") == b"x")
    assert service.report("ended") is None


def test_a_file_in_logs_is_readable_while_it_grows(submit, service):
    submit("f = open('logs/events', 'wb')\nf.write(b'one'); f.flush()\nimport time; time.sleep(600)")
    service.wait_for(lambda: service.logs.get("logs/events") == b"one")


def test_a_file_in_logs_that_is_rewritten_is_sent_whole(submit, service):
    submit(
        "import os, time\n"
        "open('logs/state', 'w').write('first version, long')\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "open('logs/state', 'w').write('second')\n"
    )
    service.wait_for(lambda: service.logs.get("logs/state") == b"first version, long")
    (TaskFolder(service.home, "run1.1").work / "go").touch()
    service.ended()
    assert service.files["logs/state"] == b"second"


def test_a_link_out_of_the_run_is_not_followed(submit, service):
    submit("import os; os.symlink('/etc/passwd', 'outputs/stolen'); open('outputs/own', 'w').write('x')")
    service.ended()
    assert set(service.files) == {"outputs/own"}


def test_an_output_whose_name_is_no_text_is_named_in_a_warning(submit, service):
    submit("open(b'outputs/bad\\xff', 'w').write('x'); open('outputs/own', 'w').write('x')")
    ended = service.ended()
    assert set(service.files) == {"outputs/own"}
    assert [warning for warning in ended["warnings"] if r"bad\xff" in warning]


def test_a_flush_is_answered_once_all_before_it_is_delivered(submit, service):
    submit(
        "import os, time\n"
        "journals = os.environ['RUNYARD_JOURNALS']\n"
        "open('outputs/model', 'w').write('m')\n"
        "open(journals + '/run1~0-1-a.jsonl', 'w').write('[1]\\n')\n"
        "flush = journals + '/flush-1'\n"
        "open(flush, 'w').close()\n"
        "while os.path.exists(flush): time.sleep(0.005)\n"
        "print('flushed'); time.sleep(600)\n"
    )
    service.wait_for(lambda: "flushed" in driver_log(service))
    assert service.files["outputs/model"] == b"m"
    assert service.journals["run1~0-1-a"] == b"[1]\n"


def test_an_upload_becomes_an_artifact_of_its_run(submit, service):
    submit(
        "import os\n"
        "uploads = os.environ['RUNYARD_UPLOADS']\n"
        "os.makedirs(uploads + '/run1/plots')\n"
        "open(uploads + '/.tmp-1', 'w').write('png')\n"
        "os.rename(uploads + '/.tmp-1', uploads + '/run1/plots/a.png')\n"
    )
    service.ended()
    assert service.files == {"plots/a.png": b"png"}


def test_the_script_sees_the_plans_variables_and_nothing_of_ours(submit, service, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SERVICE", "1")
    submit("import os; print(sorted(os.environ)); print(os.environ['PYTHONPATH'])", env={"PATH": "/bin", "MINE": "1"})
    service.ended()
    shown = driver_log(service)
    assert "'MINE'" in shown
    assert "RUNYARD_JOURNALS" in shown
    assert "SECRET_OF_THE_SERVICE" not in shown
    assert f"{service.home}/sdk/" in shown


def test_variables_and_data_in_arguments_are_filled_in(submit, service, home):
    folder = home / "datastores" / "w" / "store"
    folder.mkdir(parents=True)
    (folder / "x.txt").write_text("data")
    service.data = DataForAttempt({}, {"store": StoreAccess("folder", str(folder))}, NetworkRules())
    reference = DataItem("store", "reference", "mount", "$AZUREML_DATAREFERENCE_store", datastore="store")
    submit(
        "import os, sys; print(os.listdir(sys.argv[1]), sys.argv[2:])",
        "$AZUREML_DATAREFERENCE_store",
        "$HOME",
        "$UNKNOWN",
        data=(reference,),
        env={"HOME": "/some/where", "PATH": os.environ["PATH"]},
    )
    assert service.ended()["outcome"] == "completed"
    assert "['x.txt'] ['/some/where', '$UNKNOWN']" in driver_log(service)


def test_a_command_is_the_shells_to_expand(submit, service):
    command = ("/bin/sh", "-c", "echo $MINE && exit 4")
    process = ProcessSpec(0, command, {"MINE": "two words"}, "azureml-logs/70_driver_log.txt")
    submit("pass", nodes=(NodePlan("127.0.0.1", (process,)),))
    assert service.ended()["exit_code"] == 4
    assert driver_log(service) == "two words\n"


def test_notices_stand_at_the_head_of_the_log(submit, service):
    submit("print('mine')", notices=("Runyard: on the CPU.",))
    service.ended()
    assert driver_log(service) == "Runyard: on the CPU.\nmine\n"


def test_a_run_that_takes_too_long_is_ended(submit, service):
    submit("import time; time.sleep(600)", max_seconds=1)
    ended = service.ended()
    assert ended["outcome"] == "canceled"
    assert "max_run_duration_seconds (1)" in ended["error"]["message"]
