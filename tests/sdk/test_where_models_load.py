"""A pickle is a program: who loads it runs it. Only workers of web services do."""

import os
import pickle
from pathlib import Path

import pytest

from azureml.core import Model
from tests.sdk.served import deployed

pytestmark = pytest.mark.slow

ESTIMATOR = "__import__('sklearn.dummy').dummy.DummyClassifier(strategy='constant', constant=1).fit([[0]], [1])"
NOTE = "open({path!r}, 'a').write('%d %s\\n' % ((lambda os: (os.getpid(), os.environ.get('RUNYARD_WORKER')))({os})))"
REQUEST = '{"data": [[5]], "method": "predict"}'


class Telltale:
    """What loads it becomes known by its process id and by the worker that it is, and gets an estimator."""

    def __init__(self, told: Path) -> None:
        self._told = str(told)

    def __reduce__(self):
        note = NOTE.format(path=self._told, os="__import__('os')")
        return eval, (f"({note}, {ESTIMATOR})[1]",)


def loads(told: Path) -> list[tuple[int, str]]:
    """(process id, the worker that the process is or "None") of each time the model was loaded."""
    lines = told.read_text().splitlines() if told.exists() else []
    return [(int(line.split()[0]), line.split()[1]) for line in lines]


def test_a_model_is_loaded_by_workers_alone(workspace, service, tmp_path):
    told = tmp_path / "told"
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Telltale(told)))
    model = Model.register(workspace, "model.pkl", "telltale", model_framework="ScikitLearn")
    model.download(str(tmp_path / "copy"))
    package = Model.package(workspace, [model], generate_dockerfile=True)
    package.wait_for_creation()
    package.save(str(tmp_path / "package"))
    assert loads(told) == []
    with deployed(workspace, "telltale", [model]) as answering:
        assert answering.run(REQUEST) == {"predict": [1]}
        profile = Model.profile(workspace, "telltale", [model], None, REQUEST)
        profile.wait_for_completion()
        workspace._client.post("/gc", {})
    model.delete()
    found = loads(told)
    assert len(found) == 2, "the web service and the profile have one worker each"
    assert all(worker != "None" for _, worker in found)
    assert not {pid for pid, _ in found} & {os.getpid(), service["pid"]}
