"""kill -9 of every process behind a web service, at every phase: its deployment has a true end, and what answered
answers again on the same port.

CI kills each process once; `make faults` the whole matrix. A phase is held open by a file that init() waits for.
"""

import json
import os
from pathlib import Path

import pytest

from azureml.core import Model
from azureml.core.model import InferenceConfig
from azureml.core.webservice import AciWebservice, Webservice
from azureml.exceptions import WebserviceException
from tests.faults.yard import Yard, eventually, is_alive, kill, this_python
from tests.serving.hosting import ask
from tests.serving.load import under_load

pytestmark = pytest.mark.slow

PHASES, VICTIMS = ("init", "answering", "updating"), ("service", "gateway", "worker")
CI = {("init", "gateway"), ("answering", "service"), ("answering", "gateway"), ("updating", "worker")}
MATRIX = [(phase, victim) for phase in PHASES for victim in VICTIMS]
CHOSEN = MATRIX if os.environ.get("RUNYARD_FAULTS") == "full" else [case for case in MATRIX if case in CI]
SCRIPT = """
import os, time

def init():
    with open({pids!r}, "a") as sink:
        sink.write("%d\\n" % os.getpid())
    while not os.path.exists({gate!r}):
        time.sleep(0.01)

def run(body):
    return {word!r}
"""


class Service:
    """A web service of a yard whose init() waits for `gate`."""

    def __init__(self, yard: Yard, folder: Path) -> None:
        self._yard, self._folder = yard, folder
        self.gate = folder / "gate"
        (folder / "model.txt").write_text("a model", encoding="utf-8")
        self._model = Model.register(yard.workspace, str(folder / "model.txt"), "faulty-model")

    def deploy(self) -> AciWebservice:
        return Model.deploy(self._yard.workspace, "faulty", [self._model], self.inference("one"))

    def inference(self, word: str) -> InferenceConfig:
        source = self._folder / word
        source.mkdir()
        text = SCRIPT.format(pids=str(self._pids(word)), gate=str(self.gate), word=word)
        (source / "score.py").write_text(text, encoding="utf-8")
        return InferenceConfig("score.py", source_directory=str(source), environment=this_python())

    def worker(self, word: str) -> int:
        """The newest process that has begun with init() of that revision."""
        return int(eventually(lambda: self._written(word), f"a worker of {word!r}")[-1])

    def pid_of(self, victim: str, word: str) -> int:
        if victim == "worker":
            return self.worker(word)
        return int(json.loads((self._yard.home / f"{victim}.json").read_bytes())["pid"])

    def _written(self, word: str) -> list[str]:
        """Empty for a moment after the file was made."""
        return self._pids(word).read_text().split() if self._pids(word).exists() else []

    def _pids(self, word: str) -> Path:
        return self._folder / f"pids-{word}"


@pytest.fixture
def service(yard: Yard, tmp_path: Path) -> Service:
    return Service(yard, tmp_path)


@pytest.mark.parametrize(("phase", "victim"), CHOSEN, ids=lambda value: value)
def test_after_a_kill_the_web_service_is_what_it_was_to_be(yard, service, phase, victim) -> None:
    {"init": _killed_in_init, "answering": _killed_while_answering, "updating": _killed_in_update}[phase](
        yard, service, victim
    )


def _killed_in_init(yard: Yard, service: Service, victim: str) -> None:
    deployed = service.deploy()
    service.worker("one")
    kill(service.pid_of(victim, "one"))
    service.gate.touch()
    yard.restart()
    if victim == "worker":
        with pytest.raises(WebserviceException, match="SIGKILL"):
            deployed.wait_for_deployment()
        return
    deployed.wait_for_deployment()
    assert deployed.run("{}") == "one"


def _killed_while_answering(yard: Yard, service: Service, victim: str) -> None:
    service.gate.touch()
    deployed = service.deploy()
    deployed.wait_for_deployment()
    address, port = deployed.scoring_uri, int(deployed.scoring_uri.split(":")[2].split("/")[0])
    with under_load(port) as load:
        eventually(lambda: load.statuses[200] > 20, "the first answers")
        gateway = service.pid_of("gateway", "one")
        kill(service.pid_of(victim, "one"))
        yard.restart()
        before = load.statuses[200]
        eventually(lambda: load.statuses[200] > before + 100, "answers after the kill")
    assert ask(port) == (200, "one")
    assert Webservice(yard.workspace, "faulty").scoring_uri == address
    assert load.statuses[502] <= (1 if victim == "worker" else 0)
    if victim == "service":
        assert service.pid_of("gateway", "one") == gateway
        assert set(load.statuses) == {200}, "endpoints do not need the service"
    if victim == "worker":
        assert set(load.statuses) <= {200, 502}


def _killed_in_update(yard: Yard, service: Service, victim: str) -> None:
    service.gate.touch()
    deployed = service.deploy()
    deployed.wait_for_deployment()
    old = service.worker("one")
    service.gate.unlink()
    deployed.update(inference_config=service.inference("two"))
    service.worker("two")
    kill(service.pid_of(victim, "two"))
    yard.restart()
    if victim == "worker":
        with pytest.raises(WebserviceException, match="SIGKILL"):
            deployed.wait_for_deployment()
        assert deployed.run("{}") == "one"
        return
    service.gate.touch()
    deployed.wait_for_deployment()
    eventually(lambda: deployed.run("{}") == "two", "the new revision")
    eventually(lambda: not is_alive(old), "the end of the old worker")


def test_a_killed_gateway_is_brought_back_by_the_service_alone(yard: Yard, service: Service) -> None:
    service.gate.touch()
    deployed = service.deploy()
    deployed.wait_for_deployment()
    port = int(deployed.scoring_uri.split(":")[2].split("/")[0])
    killed = service.pid_of("gateway", "one")
    kill(killed)
    eventually(lambda: service.pid_of("gateway", "one") != killed, "another gateway")
    eventually(lambda: _answers(port), "its answer")


def test_nothing_is_left_of_a_web_service_deleted_right_after_a_kill(yard: Yard, service: Service) -> None:
    service.gate.touch()
    deployed = service.deploy()
    deployed.wait_for_deployment()
    worker = service.worker("one")
    kill(service.pid_of("gateway", "one"))
    deployed.delete()
    eventually(lambda: not is_alive(worker), "the end of the worker")
    eventually(lambda: not list((yard.home / "services").iterdir()), "the removal of its folder")


def _answers(port: int) -> bool:
    try:
        return ask(port) == (200, "one")
    except OSError:
        return False
