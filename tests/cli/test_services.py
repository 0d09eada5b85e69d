import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.conftest import RUNYARD, Shell
from tests.servers.certificates import make_certificate

pytestmark = pytest.mark.slow

SCORE = """
import json, os

def init():
    global weights
    print("loading the weights")
    weights = open(os.path.join(os.environ["AZUREML_MODEL_DIR"], "model.txt")).read()

def run(body):
    return {"weights": weights, "got": json.loads(body)}
"""
BROKEN = """
def init():
    print("about to fail")
    raise RuntimeError("the weights are of another kind")

def run(body):
    return body
"""
REGISTER_ENVIRONMENT = """
from azureml.core import Environment, Workspace
here = Environment("here")
here.python.user_managed_dependencies = True
here.register(Workspace.from_config())
"""
DEPLOY_WITH_CERTIFICATE = """
from azureml.core import Environment, Model, Workspace
from azureml.core.model import InferenceConfig
from azureml.core.webservice import AciWebservice
workspace = Workspace.from_config()
here = Environment.get(workspace, "here")
config = AciWebservice.deploy_configuration(
    ssl_enabled=True, ssl_cert_pem_file={chain!r}, ssl_key_pem_file={key!r},
    ssl_cname="models.example", auth_enabled=True,
)
scoring = InferenceConfig("score.py", source_directory="scoring", environment=here)
Model.deploy(workspace, "encrypted", [Model(workspace, "net")], scoring, config).wait_for_deployment()
"""
SCRIPT = ("--entry-script", "score.py", "--source", "scoring", "--environment", "here")


@pytest.fixture(scope="module")
def scoring(shell: Shell, runs: dict[str, str]) -> Path:
    """The folder of scoring scripts; the model `net` and the environment `here` are registered."""
    folder = shell.folder / "scoring"
    folder.mkdir()
    (folder / "score.py").write_text(SCORE, encoding="utf-8")
    (folder / "broken.py").write_text(BROKEN, encoding="utf-8")
    shell.python(REGISTER_ENVIRONMENT)
    return folder


@pytest.fixture(scope="module")
def deployed(shell: Shell, scoring: Path) -> Iterator[subprocess.CompletedProcess[str]]:
    """What `runyard deploy` said of the web service `net`."""
    done = shell("deploy", "net", *SCRIPT)
    assert done.returncode == 0, done.stderr
    yield done
    shell("services", "delete", "net", "--yes")


def answers_again(uri: str) -> bool:
    """Whether it does within a time that a user would wait."""
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at:
        with contextlib.suppress(OSError), urlopen(uri, b"{}", timeout=30) as answer:
            return bool(answer.status == 200)
        time.sleep(0.05)
    return False


def test_a_model_is_deployed_and_the_line_to_try_it_works(shell: Shell, deployed: subprocess.CompletedProcess) -> None:
    assert "net is Healthy after" in deployed.stderr
    curl = deployed.stdout.splitlines()[-1]
    assert curl.startswith("curl http://localhost:")
    with urlopen(curl.split()[1], b'{"rows": [1]}', timeout=30) as answer:
        assert json.load(answer) == {"weights": "weights", "got": {"rows": [1]}}


def test_a_web_service_is_asked_with_data_or_a_file(
    shell: Shell, deployed: subprocess.CompletedProcess, tmp_path: Path
) -> None:
    asked = shell("services", "test", "net", "--data", '{"x": 1}')
    assert asked.returncode == 0
    assert json.loads(asked.stdout)["got"] == {"x": 1}
    assert "200 after" in asked.stderr
    (tmp_path / "body.json").write_text('{"x": 2}', encoding="utf-8")
    told = json.loads(shell("services", "test", "net", "--file", tmp_path / "body.json", "-o", "json").stdout)
    assert told["body"]["got"] == {"x": 2}
    assert told["status"] == 200
    assert told["milliseconds"] > 0


@pytest.fixture
def encrypted(shell: Shell, scoring: Path, tmp_path: Path) -> Iterator[None]:
    """A web service of that name, with a certificate that nobody issued."""
    made = make_certificate(tmp_path, "models.example")
    leaf, end, _ = made.chain.read_text().partition("-----END CERTIFICATE-----\n")
    made.chain.write_text(leaf + end)
    shell.python(DEPLOY_WITH_CERTIFICATE.format(chain=str(made.chain), key=str(made.key)))
    yield
    assert shell("services", "delete", "encrypted", "--yes").returncode == 0


@pytest.mark.needs("curl")
@pytest.mark.usefixtures("encrypted")
def test_a_certificate_that_nobody_issued_is_believed_of_the_web_service_that_has_it(shell: Shell) -> None:
    asked = shell("services", "test", "encrypted", "--data", '{"x": 1}')
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["got"] == {"x": 1}
    curl = shell("services", "show", "encrypted").stdout.splitlines()[-1]
    command = curl.replace("runyard", str(RUNYARD)).replace('{"data": ...}', '{"x": 2}')
    answer = subprocess.run(command, shell=True, env=shell.variables, capture_output=True, timeout=30)
    assert json.loads(answer.stdout)["got"] == {"x": 2}


def test_an_answer_that_is_an_error_exits_with_one(shell: Shell, deployed: subprocess.CompletedProcess) -> None:
    asked = shell("services", "test", "net", "--data", "no json")
    assert asked.returncode == 1
    assert "500 after" in asked.stderr


def test_where_nothing_is_known_of_the_input_no_sample_is_sent(
    shell: Shell, deployed: subprocess.CompletedProcess
) -> None:
    asked = shell("services", "test", "net")
    assert asked.returncode == 2
    assert "--data" in asked.stderr


def test_a_web_service_is_listed_and_shown_with_its_model_and_workers(
    shell: Shell, runs: dict[str, str], deployed: subprocess.CompletedProcess
) -> None:
    assert "net" in shell("services", "list").stdout
    assert shell("services", "list", "--model", "other").stdout == ""
    assert "net" in shell("services", "list", "--created-by", "owner").stdout
    assert shell("services", "list", "--created-by", "run:none").stdout == ""
    shell("services", "test", "net", "--data", "{}")
    shown = shell("services", "show", "net").stdout
    for expected in ("Healthy", "net:1", f"run {runs['good']}", "x 200", "p50", "replicas, 1 of 1", "none asked for"):
        assert expected in shown
    record = json.loads(shell("services", "show", "net", "-o", "json").stdout)
    assert record["metrics"]["replicas"][0]["memory_bytes"] > 0
    assert record["lineage"][0]["run"]["id"] == runs["good"]


def test_a_model_tells_where_it_is_deployed(
    shell: Shell, runs: dict[str, str], deployed: subprocess.CompletedProcess
) -> None:
    shown = shell("models", "show", "net").stdout
    assert "net      ACI   Healthy" in shown.partition("deployed as")[2]
    assert "good.py" in shown


def test_its_log_has_what_the_script_printed(shell: Shell, deployed: subprocess.CompletedProcess) -> None:
    assert "loading the weights" in shell("services", "logs", "net").stdout


def test_a_name_that_is_taken_is_replaced_only_when_asked(shell: Shell, deployed: subprocess.CompletedProcess) -> None:
    refused = shell("deploy", "net", *SCRIPT)
    assert refused.returncode == 1
    assert "--overwrite" in refused.stderr
    before = json.loads(shell("services", "show", "net", "-o", "json").stdout)
    again = shell("deploy", "net", *SCRIPT, "--overwrite", "-o", "json")
    assert again.returncode == 0, again.stderr
    record = json.loads(again.stdout)
    assert record["revision"] > before["revision"]
    assert record["port"] == before["port"]


def test_a_web_service_answers_without_the_service_and_comes_back_with_it(
    shell: Shell, deployed: subprocess.CompletedProcess
) -> None:
    uri = json.loads(shell("services", "show", "net", "-o", "json").stdout)["scoring_uri"]
    assert "1 web service still running" in shell("down").stdout
    with urlopen(uri, b"{}", timeout=30) as answer:
        assert answer.status == 200
    assert "1 web service stopped answering" in shell("down", "--services").stdout
    with pytest.raises(OSError, match="refused"):
        urlopen(uri, b"{}", timeout=30)
    assert shell("up").returncode == 0
    assert answers_again(uri)


def test_a_failing_init_is_told_with_its_traceback(shell: Shell, scoring: Path) -> None:
    arguments = ("deploy", "net", "--name", "broken", "--entry-script", "broken.py", "--source", "scoring")
    failed = shell(*arguments, "--environment", "here")
    try:
        assert failed.returncode == 1
        assert 'raise RuntimeError("the weights are of another kind")' in failed.stderr
        assert failed.stderr.splitlines()[-1].startswith("Error: broken failed at init: ")
        assert "the weights are of another kind" in failed.stderr.splitlines()[-1]
        told = shell(*arguments, "--environment", "here", "--overwrite", "-o", "json")
        assert told.returncode == 1
        assert "RuntimeError" in json.loads(told.stdout)["error"]["traceback"]
        assert "2 failed" in shell("services", "show", "broken").stdout
    finally:
        assert shell("services", "delete", "broken", "--yes").returncode == 0


def test_keys_are_asked_for_printed_and_made_anew(shell: Shell, scoring: Path) -> None:
    done = shell("deploy", "net", *SCRIPT, "--name", "locked", "--auth")
    try:
        assert done.returncode == 0, done.stderr
        assert "$(runyard services keys locked --bare)" in done.stdout
        assert shell("services", "test", "locked", "--data", "{}").returncode == 0
        primary = shell("services", "keys", "locked", "--bare").stdout.strip()
        keys = json.loads(shell("services", "keys", "locked", "--regenerate", "primary", "-o", "json").stdout)
        assert primary not in keys.values()
        assert shell("services", "test", "locked", "--data", "{}").returncode == 0
    finally:
        shell("services", "delete", "locked", "--yes")


def test_following_a_log_ends_when_the_web_service_is_deleted(shell: Shell, scoring: Path) -> None:
    assert shell("deploy", "net", *SCRIPT, "--name", "passing").returncode == 0
    command = [str(RUNYARD), "services", "logs", "-f", "passing"]
    following = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=shell.variables, cwd=shell.folder)
    assert following.stdout is not None
    assert any("loading the weights" in line for line in following.stdout)
    assert shell("services", "delete", "passing", "--yes").returncode == 0
    assert following.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (("deploy", "nothing"), 3),
        (("deploy", "net:99"), 3),
        (("deploy", "net:"), 2),
        (("deploy", "net", "--source", "."), 2),
        (("deploy", "net", "--name", "Capitals", *SCRIPT), 2),
        (("deploy", "net", "--entry-script", "absent.py", "--source", "scoring", "--environment", "here"), 2),
        (("deploy", "net", "--name", "without-framework"), 2),
        (("services", "show", "nothing"), 3),
        (("services", "test", "nothing", "--data", "{}"), 3),
        (("services", "test", "net", "--data", "{}", "--file", "scoring/score.py"), 2),
        (("services", "keys", "net", "--regenerate", "both"), 2),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    shell: Shell, scoring: Path, arguments: tuple[str, ...], exit_code: int
) -> None:
    refused = shell(*arguments)
    assert refused.returncode == exit_code, refused.stderr
    assert refused.stderr.startswith("Error: ")
    assert len(refused.stderr.splitlines()) == 1
