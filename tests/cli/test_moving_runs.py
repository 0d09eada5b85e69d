import json
import os
import subprocess
import sys

from runyard.server.lifecycle import start_service
from tests.cli.conftest import RUNYARD
from tests.conftest import end_home


def test_runs_are_exported_and_imported_into_a_service_elsewhere(shell, runs, tmp_path):
    done = shell("runs", "export", runs["good"], runs["bad"], tmp_path, "-o", "json")
    assert done.returncode == 0, done.stderr
    exported = json.loads(done.stdout)
    assert exported["runs"] == [runs["good"], runs["bad"]]
    assert exported["file"] == str(tmp_path / f"{runs['good']}.tar")
    facts = start_service(tmp_path / "other", keep=True)
    try:
        variables = {name: value for name, value in os.environ.items() if name != "RUNYARD_HOME"}
        variables |= {"RUNYARD_URL": facts["url"], "RUNYARD_TOKEN": facts["token"], "RUNYARD_HOME": str(tmp_path / "h")}

        def there(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [str(RUNYARD), *arguments]
            return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)

        taken = there("runs", "import", exported["file"])
        assert taken.returncode == 0, taken.stderr
        assert f"{runs['good']}, {runs['bad']}" in taken.stdout
        assert "net:1" in taken.stdout
        again = json.loads(there("runs", "import", exported["file"], "-o", "json").stdout)
        assert (again["runs"], again["known_runs"]) == ([], [runs["good"], runs["bad"]])
        for run_id in runs.values():
            shown = [json.loads(ask("runs", "show", run_id, "-o", "json").stdout) for ask in (shell, there)]
            assert _same(shown[0]) == _same(shown[1])
            assert shell("runs", "logs", run_id).stdout == there("runs", "logs", run_id).stdout
        script = (
            "from azureml.core import Workspace, Model; import sys; w = Workspace.get(sys.argv[1]); "
            "print(Model(w, 'net').download(sys.argv[2]), w.experiments['cli'].name)"
        )
        command = [sys.executable, "-c", script, exported["workspace"], str(tmp_path / "model")]
        fetched = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
        assert fetched.returncode == 0, fetched.stderr
        assert next(p for p in (tmp_path / "model").rglob("*") if p.is_file()).read_text() == "weights"
    finally:
        end_home(tmp_path / "other")


def _same(run):
    """Without what another home gives anew."""
    return {name: value for name, value in run.items() if name not in ("sequence", "web_view")}


def test_wrong_files_and_names_are_said(shell, runs, tmp_path):
    wrong = tmp_path / "wrong.tar"
    wrong.write_bytes(b"not a tar" * 1000)
    refused = shell("runs", "import", wrong)
    assert refused.returncode == 2
    assert "This is no archive of runs" in refused.stderr
    assert shell("runs", "import", tmp_path / "nothing").returncode == 2
    assert shell("runs", "export", "nobody", tmp_path / "x.tar").returncode == 3
    assert shell("runs", "export", runs["good"]).returncode == 2
    assert "exists already" in shell("runs", "export", runs["good"], wrong).stderr
