"""Kinds of runs: which a run is of, and one that a package of somebody else brings."""

import hashlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.runs.kinds.registry import GROUP
from tests.plugins import faulty_kinds, retry_kind
from tests.plugins.installing import install, service_with
from tests.wire_client import PATIENCE_SECONDS, PREFIX, WireClient

# Fails in the first and in the second child.
SCRIPT = b"import os, sys\nrun = os.environ['AZUREML_RUN_ID']\nprint('try', run)\nsys.exit(run[-1] in '12')\n"
SLOW = b"import time\nprint('begun', flush=True)\ntime.sleep(600)\n"
OWN_PYTHON = {"python": {"userManagedDependencies": True, "interpreterPath": sys.executable}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kinds") / "home"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[WireClient]:
    """Of a service that has a sound plug-in, and several broken ones."""
    packages = tmp_path_factory.mktemp("packages")
    install(packages, "toy", GROUP, "retry = retry_kind:RetryKind", Path(retry_kind.__file__))
    points = "broken = no_such_module:Kind\nwrong = retry_kind:most_tries\nscript = retry_kind:RetryKind"
    points += "\nfaulty = faulty_kinds:FaultyKind\nthief = faulty_kinds:ThiefKind\ngreedy = faulty_kinds:GreedyKind"
    install(packages, "faulty", GROUP, points, Path(faulty_kinds.__file__))
    with service_with(packages, home) as client:
        yield client


def test_a_kind_of_another_package_runs_a_script(client: WireClient) -> None:
    submit(client, "again", SCRIPT)
    run = ended(client, "again")
    assert (run["status"], run["kind"], run["has_children"]) == ("Completed", "retry", True)
    assert run["properties"]["tries"] == "3"
    assert (run["nodes"], run["attempt"]) == ([], 0)
    page = client.ask("GET", run["web_view"].removeprefix(client.url)).body.decode()
    assert "retry · run 1 of probe" in page
    children = client.get(f"{client.here}/runs?parent=again&children=1")["runs"]
    assert [(one["id"], one["status"], one["kind"]) for one in children] == [
        ("again_3", "Completed", "script"),
        ("again_2", "Failed", "script"),
        ("again_1", "Failed", "script"),
    ]
    assert client.read("/runs/again_3/logs/azureml-logs/70_driver_log.txt").strip() == b"try again_3"


def test_it_ends_as_failed_with_its_own_words(client: WireClient) -> None:
    submit(client, "twice", SCRIPT, tags={"most_tries": "2"})
    run = ended(client, "twice")
    assert run["status"] == "Failed"
    assert run["error"]["error"]["message"] == "The script failed 2 times, the last time in twice_2."


def test_what_it_refuses_is_refused(client: WireClient) -> None:
    refused = submission(client, "refused", SCRIPT, tags={"most_tries": "many"})
    assert client.refusal("POST", experiment(client), refused)["problem"].startswith("The tag 'most_tries' must be")
    notebook = {**submission(client, "notebook", SCRIPT), "interactive": True}
    refused = client.refusal("POST", experiment(client), notebook)
    assert (refused["status"], refused["problem"][:33]) == (400, "A retry cannot be interactive: Ru")


def test_while_it_goes_on_its_children_are_its_own(client: WireClient) -> None:
    submit(client, "slow", SLOW)
    await_run(client, "slow_1")
    child = {"run_id": "foreign", "interactive": True, "parent_id": "slow"}
    assert client.refusal("POST", experiment(client), child)["status"] == 400
    assert client.refusal("DELETE", "/runs/slow_1")["problem"] == (
        "Run 'slow_1' is a child of the retry 'slow', which is still going on."
    )
    assert client.refusal("PATCH", "/runs/slow", {"status": "Completed"})["status"] == 409
    assert client.refusal("PATCH", "/runs/slow", {"properties": {"tries": "9"}})["status"] == 400
    client.post("/runs/slow/cancel")
    assert ended(client, "slow")["status"] == "Canceled"
    assert client.get("/runs/slow_1")["status"] == "Canceled"


def test_a_broken_kind_is_named_and_left_out(client: WireClient, home: Path) -> None:
    text = (home / "service.log").read_text()
    assert "Plug-in broken was left out: no_such_module:Kind: ModuleNotFoundError" in text
    assert "Plug-in wrong was left out: " in text
    assert "Plug-in script = retry_kind:RetryKind was left out: the name is taken." in text
    assert "Plug-in thief was left out: its type 'hyperdrive' is that of 'sweep'" in text
    assert "Plug-in greedy was left out: its type 'azureml.scriptrun' is that of plain runs" in text


def test_a_kind_that_fails_whenever_it_is_asked_hurts_no_other(client: WireClient, home: Path) -> None:
    submit(client, "beside", b"", type="")
    assert ended(client, "beside")["status"] == "Completed"
    submit(client, "parent", b"")
    assert ended(client, "parent")["status"] == "Completed"
    text = (home / "service.log").read_text()
    for what in ("check a submission", "look after its runs; the next pass tries again"):
        assert f"Run kind faulty failed to {what}." in text
    assert "Run kind faulty failed on the end of a child." in text


def test_a_build_is_not_submitted_as_a_run(client: WireClient) -> None:
    refused = client.refusal("POST", experiment(client), submission(client, "built", b"", type="runyard.build"))
    assert (refused["status"], refused["problem"]) == (400, "Runs of type 'runyard.build' cannot be submitted.")
    half = submission(client, "half", b"", type="azureml.scriptrun")
    half["definition"]["runyard"] = {"build": {"force": False}}
    assert client.refusal("POST", experiment(client), half)["problem"].startswith("'runyard.build' cannot be given")


def test_a_type_that_no_kind_has_is_a_script(client: WireClient) -> None:
    submit(client, "other", b"print('as ever')", type="somebody.elses")
    assert (ended(client, "other")["status"], client.get("/runs/other")["kind"]) == ("Completed", "script")
    note = client.interactive_run("note", type="somebody.elses")
    assert (note["kind"], note["has_children"]) == ("interactive", False)


def test_runs_are_listed_by_kind(client: WireClient) -> None:
    submit(client, "listed", b"")
    ended(client, "listed")
    found = client.get(f"{client.here}/runs?kind=retry")["runs"]
    assert "listed" in [one["id"] for one in found]
    assert {one["kind"] for one in found} == {"retry"}
    assert client.refusal("GET", f"{client.here}/runs?kind=script")["problem"] == (
        "kind must be one of 'build', 'faulty', 'retry', 'sweep', got 'script'."
    )


def test_the_page_about_kinds_shows_the_kind_of_these_tests() -> None:
    page = Path(__file__).parents[2] / "docs" / "run-kinds.md"
    assert Path(retry_kind.__file__).read_text() in page.read_text()


def experiment(client: WireClient) -> str:
    return f"{client.here}/experiments/probe/runs"


def submission(client: WireClient, run_id: str, script: bytes, **more: Any) -> dict[str, Any]:
    client.put_blob(script)
    entry = ["train.py", hashlib.sha256(script).hexdigest(), len(script), 0o644]
    definition = {"script": "train.py", "target": "local", "environment": OWN_PYTHON}
    return {"run_id": run_id, "type": "toy.retry", "definition": definition, "snapshot": [entry], **more}


def submit(client: WireClient, run_id: str, script: bytes, **more: Any) -> None:
    client.post(experiment(client), submission(client, run_id, script, **more))


def ended(client: WireClient, run_id: str) -> dict[str, Any]:
    """The run, once it has ended."""
    run: dict[str, Any] = client.get(f"/runs/{run_id}/wait?ended=1&timeout=60")
    return run


def await_run(client: WireClient, run_id: str) -> None:
    """Return once the run is there."""
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while client.ask("GET", f"{PREFIX}/runs/{run_id}").status == 404:
        assert time.monotonic() < ends_at, f"There is no run {run_id}."
        time.sleep(0.02)
