"""From a spec to a port that answers, or to the words that say why not."""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.record_json import to_json
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import Scale, ServedModel, ServiceAuth, ServiceState, ServingLimits
from tests.serving.hosting import ECHO, Hosting, ask, eventually, is_alive

pytestmark = pytest.mark.slow


def test_a_script_answers_once_its_deployment_has_ended(hosting: Hosting) -> None:
    seen = hosting.deploy(spec := hosting.spec())
    assert (seen.state, seen.revision, seen.failed_revision, seen.replicas) == (ServiceState.HEALTHY, 1, 0, 1)
    assert ask(seen.port, b'{"a": 1}') == (200, '{"a": 1}')
    assert "here I am" in hosting.log(spec)


def test_workers_have_the_models_and_nothing_of_the_gateway(hosting: Hosting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SHELL", "1")
    script = (
        "import os\ndef init(): pass\n"
        "def run(body):\n"
        "    root = os.environ['AZUREML_MODEL_DIR']\n"
        "    found = open(os.path.join(root, 'weights.txt')).read()\n"
        "    return [found, os.getcwd() == os.environ['AML_APP_ROOT'], os.environ.get('SECRET_OF_THE_SHELL'),\n"
        "            os.environ['OMP_NUM_THREADS'], os.path.isdir('azureml-models/net/3')]\n"
    )
    model = ServedModel("net", 3, (hosting.file("weights.txt", "42"),))
    seen = hosting.deploy(hosting.spec(script, models=(model,), variables={"OMP_NUM_THREADS": "2"}))
    answer = ask(seen.port)
    assert answer == (200, ["42", True, None, "2", True]), answer


def test_a_failing_init_is_told_with_its_exception_and_its_lines(hosting: Hosting) -> None:
    spec = hosting.spec("def init():\n    print('reading')\n    raise ValueError('no weights')\ndef run(body): pass\n")
    seen = hosting.deploy(spec)
    assert (seen.state, seen.revision, seen.failed_revision) == (ServiceState.FAILED, 0, 1)
    assert seen.trouble is not None
    assert seen.trouble.step == "init"
    assert "no weights" in seen.trouble.problem
    assert "raise ValueError" in seen.trouble.traceback
    assert "reading" in seen.trouble.logs
    with pytest.raises(ConnectionRefusedError):
        ask(seen.port)


def test_an_exception_of_any_length_is_told(hosting: Hosting) -> None:
    raising = "raise ValueError('begin ' + 'x' * 3_000_000 + ' end')"
    seen = hosting.deploy(hosting.spec(f"def init():\n    {raising}\ndef run(body): pass\n"))
    assert seen.trouble is not None
    assert "ValueError: begin xxx" in seen.trouble.problem
    assert seen.trouble.traceback.rstrip().endswith("xxx end")
    assert len(json.dumps(to_json(seen))) < 200_000


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ("import os; os._exit(7)", "exit code 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    ],
)
def test_a_worker_that_ends_in_init_says_how(hosting: Hosting, init: str, words: str) -> None:
    seen = hosting.deploy(hosting.spec(f"def init():\n    {init}\ndef run(body): pass\n"))
    assert seen.trouble is not None
    assert words in seen.trouble.problem
    assert "before init() was done" in seen.trouble.problem


def test_an_init_that_does_not_end_is_killed_and_its_stack_is_in_the_log(hosting: Hosting) -> None:
    script = "import time\ndef init():\n    time.sleep(600)\ndef run(body): pass\n"
    spec = hosting.spec(script, limits=ServingLimits(init_seconds=1.0))
    seen = hosting.deploy(spec)
    assert seen.trouble is not None
    assert "within 1 s" in seen.trouble.problem
    assert "init (score.py:3)" in hosting.log(spec)


def test_a_wrong_interpreter_is_a_failure_of_the_environment(hosting: Hosting) -> None:
    missing = EnvironmentSpec(python="/nowhere/python", user_managed=True)
    seen = hosting.deploy(hosting.spec(environment=missing))
    assert seen.trouble is not None
    assert (seen.trouble.step, "/nowhere/python" in seen.trouble.problem) == ("environment", True)


def test_a_missing_blob_is_a_failure_of_the_files(hosting: Hosting) -> None:
    spec = hosting.spec()
    gone = replace(spec.code[0], sha256="0" * 64)
    seen = hosting.deploy(replace(spec, code=(gone,)))
    assert seen.trouble is not None
    assert seen.trouble.step == "files"
    assert seen.trouble.hint


@pytest.mark.parametrize("path", ["../escaped.py", "/tmp/escaped.py", "a\0b"])
def test_a_file_outside_its_folder_is_refused(hosting: Hosting, path: str) -> None:
    spec = hosting.spec()
    seen = hosting.deploy(replace(spec, code=(*spec.code, replace(spec.code[0], path=path))))
    assert seen.trouble is not None
    assert seen.trouble.step == "files"
    assert not list(hosting.home.rglob("escaped.py"))


def test_the_second_of_two_applies_counts(hosting: Hosting) -> None:
    spec = hosting.spec("import time\ndef init():\n    time.sleep(600)\ndef run(body): pass\n")
    hosting.host.apply(spec)
    hosting.until(spec, lambda seen: seen.step == "init")
    fresh = hosting.changed(spec, ECHO)
    seen = hosting.deploy(fresh)
    assert (seen.revision, seen.failed_revision, seen.generation) == (2, 0, 2)
    assert ask(seen.port)[0] == 200
    hosting.host.apply(spec)
    assert hosting.host.observe(spec.id) == seen, "an older spec than the one that is known changes nothing"


def test_keys_change_under_the_same_worker(hosting: Hosting) -> None:
    seen = hosting.deploy(spec := hosting.spec())
    workers = hosting.workers(spec)
    keyed = hosting.changed(spec, admission=ServiceAuth(keys=("first", "second")))
    hosting.host.apply(keyed)
    hosting.until(keyed, lambda seen: seen.generation == 2)
    assert ask(seen.port)[0] == 401
    assert hosting.workers(spec) == workers


def test_the_number_of_replicas_changes_without_a_new_revision(hosting: Hosting) -> None:
    hosting.deploy(spec := hosting.spec(scale=Scale(least=1, most=1)))
    (first,) = hosting.workers(spec)
    more = hosting.changed(spec, scale=Scale(least=3, most=3))
    hosting.host.apply(more)
    hosting.until(more, lambda seen: seen.replicas == 3)
    assert first in hosting.workers(spec)
    fewer = hosting.changed(more, scale=Scale(least=1, most=1))
    hosting.host.apply(fewer)
    eventually(lambda: len(hosting.workers(spec)) == 1, "fewer workers")


def test_the_first_of_several_replicas_decides(hosting: Hosting) -> None:
    script = (
        "import os\ndef init():\n    print('tried', flush=True)\n    raise ValueError('bad')\ndef run(body): pass\n"
    )
    spec = hosting.spec(script, scale=Scale(least=4, most=4))
    assert hosting.deploy(spec).failed_revision == 1
    assert hosting.log(spec).splitlines().count("tried") == 1


def test_a_removed_service_leaves_no_port_no_process_and_no_folder(hosting: Hosting) -> None:
    seen = hosting.deploy(spec := hosting.spec())
    workers = hosting.workers(spec)
    hosting.host.remove(spec.id)
    assert not any(map(is_alive, workers))
    assert not list((hosting.home / "services").iterdir())
    with pytest.raises(ConnectionRefusedError):
        ask(seen.port)
    hosting.host.remove(spec.id)
    assert hosting.host.observe(spec.id) is None


def test_a_gateway_without_web_services_ends(hosting: Hosting) -> None:
    hosting.deploy(spec := hosting.spec())
    gateway = hosting.gateway()
    hosting.host.remove(spec.id)
    eventually(lambda: not is_alive(gateway), "the end of the gateway")


def test_a_port_that_a_stranger_has_is_told_at_once_with_its_holder(hosting: Hosting) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        seen = hosting.deploy(hosting.spec(port=port))
    assert seen.trouble is not None
    assert seen.trouble.step == "port"
    assert str(port) in seen.trouble.problem
    assert "process" in seen.trouble.problem
    assert seen.trouble.hint


def test_a_chosen_port_is_none_that_outgoing_connections_take(hosting: Hosting) -> None:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split())
    seen = hosting.deploy(hosting.spec())
    assert not low <= seen.port <= high
