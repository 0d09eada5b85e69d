"""A pickle is code: it runs where models are served, and nowhere else."""

import pickle
import time
from typing import Any

from tests.service.scoring_models import registered_without_code, scikit_learn_python, submitter

WAIT_SECONDS = 60.0


class Telling:
    """Unpickled, it writes down the command of the process that did so, and is a model that answers."""

    def __init__(self, told):
        self._told = str(told)

    def __reduce__(self):
        tell = f"open({self._told!r}, 'ab').write(open('/proc/self/cmdline', 'rb').read() + b'\\n')"
        model = "__import__('sklearn.dummy').dummy.DummyClassifier().fit([[0.0]], [0])"
        return eval, (f"[{tell}, {model}][1]",)


def ended(client, path: str, is_over) -> dict[str, Any]:
    record, ends_at = client.get(path), time.monotonic() + WAIT_SECONDS
    while not is_over(record):
        assert time.monotonic() < ends_at, record
        record = client.get(f"{path}/wait?version={record['version']}&timeout=10")
    return record


def test_a_model_is_loaded_by_workers_alone(client, service, tmp_path):
    told = tmp_path / "told"
    scikit_learn_python(service["home"])
    model = registered_without_code(client, "telling", pickle.dumps(Telling(told)))
    definition = {"models": [model], "submitter": submitter()}
    package = client.post(f"{client.here}/packages", definition)
    assert package["state"] == "Succeeded", package
    client.read(f"{client.here}/packages/{package['id']}/zip")
    assert not told.exists()
    rows = {"name": "measured", "rows": ['{"data": [[1.0]]}']}
    client.post(f"{client.here}/profiles", {**definition, **rows})
    profile = ended(client, f"{client.here}/profiles/measured", lambda record: record["state"] != "Running")
    assert profile["state"] == "Succeeded", profile
    client.post(f"{client.here}/services", {**definition, "name": "telling"})
    deployed = ended(client, f"{client.here}/services/telling", lambda record: record["revision"] == 1)
    client.delete(f"{client.here}/services/telling")
    assert deployed["state"] == "Healthy", deployed
    loaded = told.read_bytes().splitlines()
    assert len(loaded) == 2
    assert all(b"runyard_sdk.scoring.worker" in command for command in loaded)
