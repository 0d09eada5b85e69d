"""Models are loaded in worker processes alone: a pickle runs whatever its maker wanted."""

import os
import pickle
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.records.web_services import Scorer, ServedModel, ServiceState
from tests.serving.hosting import Hosting


class Telltale:
    """Whoever loads it writes down which process that was, and of which program."""

    def __init__(self, book: Path) -> None:
        self.book = book

    def __reduce__(self) -> tuple[object, tuple[str]]:
        command = "open('/proc/self/cmdline').read().replace(chr(0), ' ')"
        return eval, (f"open({str(self.book)!r}, 'a').write({command} + chr(10))",)


@pytest.mark.parametrize("scorer", [Scorer.SCIKIT_LEARN, Scorer.SCRIPT])
def test_a_pickle_is_loaded_by_workers_alone(hosting: Hosting, tmp_path: Path, scorer: Scorer) -> None:
    book = tmp_path / "book"
    model = ServedModel("net", 1, (hosting.binary("model.pkl", pickle.dumps(Telltale(book))),))
    load = "pickle.load(open(os.environ['AZUREML_MODEL_DIR'] + '/model.pkl', 'rb'))"
    spec = hosting.spec(f"import os, pickle\ndef init(): {load}\ndef run(body): pass\n", models=(model,))
    (tmp_path / "sklearn").mkdir()
    (tmp_path / "sklearn" / "__init__.py").write_text("__version__ = '1.0'\n")
    spec = replace(spec, scorer=scorer, variables={"PYTHONPATH": str(tmp_path)})
    seen = hosting.deploy(spec)
    os.kill(hosting.gateway(), signal.SIGKILL)
    hosting.host.revive()
    if seen.state is ServiceState.HEALTHY:
        hosting.until(spec, lambda now: now.state is ServiceState.HEALTHY and now.version > seen.version)
    hosting.deploy(replace(spec, revision=2, generation=2))
    loaded = book.read_text().splitlines()
    assert len(loaded) >= 2
    assert all(" -m runyard_sdk.scoring.worker " in command for command in loaded)
