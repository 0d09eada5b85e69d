"""Sweeps over the wire: what is refused at the submit, and whole ones on a real service."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.wire_client import WireClient

ENDS = ("Completed", "Failed", "Canceled")
LOGS = "import sys\nfrom azureml.core import Run\nRun.get_context().log('score', float(sys.argv[-1]))\n"
WAITS = "import sys, time\nprint('here', flush=True)\ntime.sleep(600)\n"


def a_sweep(**changes: Any) -> dict[str, Any]:
    return {
        "sampling": {"name": "RANDOM", "parameter_space": {"lr": ["uniform", [0, 1]]}, "properties": {"seed": 7}},
        "policy": {"name": "Default", "properties": {}},
        "primary_metric": {"name": "score", "goal": "maximize"},
        "max_total_runs": 3,
        "max_concurrent_runs": 2,
        "max_duration_minutes": 10,
        **changes,
    }


def a_body(client: WireClient, script: str = LOGS, run_id: str = "", **sweep: Any) -> dict[str, Any]:
    environment = {"python": {"userManagedDependencies": True, "interpreterPath": sys.executable}}
    sha256 = client.put_blob(script.encode())
    return {
        "run_id": run_id or f"HD_{client.workspace}",
        "type": "hyperdrive",
        "snapshot": [["train.py", sha256, len(script), 0o644]],
        "definition": {
            "script": "train.py",
            "arguments": [],
            "target": "local",
            "environment": environment,
            "runyard": {"cancel_grace_seconds": 0.5, "sweep": a_sweep(**sweep)},
        },
    }


def post(client: WireClient, body: dict[str, Any]) -> str:
    run: dict[str, Any] = client.post(f"{client.here}/experiments/tuning/runs", body)
    return str(run["id"])


def refused(client: WireClient, body: dict[str, Any]) -> dict[str, Any]:
    return client.refusal("POST", f"{client.here}/experiments/tuning/runs", body)


def wait_for(client: WireClient, run_id: str, *statuses: str) -> dict[str, Any]:
    run = client.get(f"/runs/{run_id}")
    for _ in range(30):
        if run["status"] in statuses:
            return dict(run)
        run = client.get(f"/runs/{run_id}/wait?version={run['version']}&timeout=5")
    raise AssertionError(f"{run_id} is {run['status']} ({run['message']}), not one of {statuses}: {run['error']}")


def going_on(client: WireClient, sweep: str) -> str:
    """The first child, running."""
    for line in client.lines(f"/runs/{sweep}/stream"):
        if f"{sweep}_0 scheduled" in line.get("text", ""):
            break
    return str(wait_for(client, f"{sweep}_0", "Running")["id"])


def children_of(client: WireClient, run_id: str) -> dict[str, str]:
    """The status of each, by id."""
    found = client.get(f"{client.here}/runs?parent={run_id}&children=1&limit=1000")["runs"]
    return {run["id"]: run["status"] for run in found}


def test_a_sweep_runs_to_its_best_child(client: WireClient) -> None:
    sweep = post(client, a_body(client))
    ended = wait_for(client, sweep, *ENDS)
    assert ended["status"] == "Completed", ended
    assert set(children_of(client, sweep).values()) == {"Completed"}
    trials = client.get(f"/runs/{sweep}/trials")["trials"]
    assert [trial["number"] for trial in sorted(trials, key=lambda trial: trial["number"])] == [0, 1, 2]
    assert ended["properties"]["best_child_run_id"] == trials[0]["run_id"]
    assert float(ended["properties"]["score"]) == trials[0]["best_primary_metric"]


def test_the_type_and_what_is_asked_of_a_sweep_go_together(client: WireClient) -> None:
    body = a_body(client)
    answer = refused(client, {**body, "type": "azureml.scriptrun"})
    assert (answer["status"], answer["code"]) == (400, "invalid_argument")
    assert "go together" in answer["problem"]
    answer = refused(client, {**body, "definition": {**body["definition"], "runyard": {}}})
    assert "has no 'runyard.sweep'" in answer["problem"]


def test_a_sweep_is_never_interactive(client: WireClient) -> None:
    assert "interactive" in refused(client, {**a_body(client), "interactive": True})["problem"]


def test_what_could_never_start_is_refused_for_the_sweep(client: WireClient) -> None:
    body = a_body(client)
    definition = {**body["definition"], "script": "other.py"}
    assert "other.py" in refused(client, {**body, "definition": definition})["problem"]
    definition = {**body["definition"], "target": "nowhere"}
    assert refused(client, {**body, "definition": definition})["status"] == 404


def test_a_sweep_of_no_runs_is_refused(client: WireClient) -> None:
    assert "max_total_runs" in refused(client, a_body(client, max_total_runs=0))["problem"]


@pytest.mark.parametrize("argument", ["resume_from", "resume_child_runs"])
def test_only_runs_of_sweeps_are_resumed(client: WireClient, argument: str) -> None:
    asked: dict[str, Any] = {argument: ["HD_unknown"]}
    answer = refused(client, a_body(client, **asked))
    assert (answer["status"], argument in answer["problem"]) == (404, True)
    plain = client.interactive_run(f"{client.workspace}_plain")["id"]
    asked = {argument: [plain]}
    answer = refused(client, a_body(client, **asked))
    assert (answer["status"], argument in answer["problem"]) == (400, True)


def test_a_sweep_of_another_workspace_is_not_resumed(client: WireClient, service: dict[str, Any]) -> None:
    sweep = post(client, a_body(client, max_total_runs=1))
    other = WireClient(service["url"], service["token"], workspace=f"{client.workspace}other")
    other.put(other.here, {"exist_ok": True})
    assert refused(other, a_body(other, resume_from=[sweep]))["status"] == 404
    wait_for(client, sweep, *ENDS)


def test_a_resumed_child_goes_on_from_its_outputs(client: WireClient) -> None:
    writes = "import os\nos.makedirs('outputs', exist_ok=True)\nopen('outputs/state', 'a').write('more ')\n"
    first = post(client, a_body(client, writes, max_total_runs=1))
    wait_for(client, first, *ENDS)
    again = post(client, a_body(client, writes, f"{first}again", max_total_runs=2, resume_child_runs=[f"{first}_0"]))
    wait_for(client, again, *ENDS)
    assert client.read(f"/runs/{again}_0/files/outputs/state") == b"more more "
    assert client.read(f"/runs/{again}_1/files/outputs/state") == b"more "


def test_nobody_else_makes_children_of_a_sweep(client: WireClient) -> None:
    sweep = post(client, a_body(client, WAITS))
    body = {"run_id": f"{client.workspace}_child", "interactive": True, "parent_id": sweep}
    assert "makes its children by itself" in refused(client, body)["problem"]
    client.post(f"/runs/{sweep}/cancel")
    wait_for(client, sweep, "Canceled")


def test_a_sweep_can_be_the_child_of_a_run(client: WireClient) -> None:
    parent = client.interactive_run(f"{client.workspace}_parent")["id"]
    sweep = post(client, {**a_body(client, max_total_runs=1), "parent_id": parent})
    assert wait_for(client, sweep, *ENDS)["status"] == "Completed"
    child = client.get(f"/runs/{sweep}_0")
    assert (child["parent_id"], child["root_id"]) == (sweep, parent)


def test_canceling_the_run_above_takes_the_sweep_along(client: WireClient) -> None:
    parent = client.interactive_run(f"{client.workspace}_parent")["id"]
    sweep = post(client, {**a_body(client, WAITS), "parent_id": parent})
    going_on(client, sweep)
    client.post(f"/runs/{parent}/cancel")
    assert wait_for(client, sweep, *ENDS)["status"] == "Canceled"
    assert set(children_of(client, sweep).values()) == {"Canceled"}


@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_the_end_of_a_sweep_is_that_of_its_children_and_of_nobodys_word(client: WireClient, end: str) -> None:
    sweep = post(client, a_body(client, WAITS))
    going_on(client, sweep)
    answer = client.refusal("PATCH", f"/runs/{sweep}", {"status": end})
    assert (answer["status"], "ends when its children have" in answer["problem"]) == (409, True)
    client.patch(f"/runs/{sweep}", {"status": "Canceled"})
    assert wait_for(client, sweep, *ENDS)["status"] == "Canceled"


def test_what_a_sweep_finds_out_is_given_by_nobody_else(client: WireClient) -> None:
    body = a_body(client, max_total_runs=1)
    answer = refused(client, {**body, "properties": {"score": "9"}})
    assert (answer["status"], "'score'" in answer["problem"]) == (400, True)
    sweep = post(client, body)
    answer = client.refusal("PATCH", f"/runs/{sweep}", {"properties": {"best_child_run_id": "other"}})
    assert (answer["status"], "'best_child_run_id'" in answer["problem"]) == (400, True)
    assert wait_for(client, sweep, *ENDS)["properties"]["best_child_run_id"] == f"{sweep}_0"


def test_a_sweep_that_is_made_again_finds_out_for_itself(client: WireClient) -> None:
    sweep = post(client, a_body(client, max_total_runs=1))
    wait_for(client, sweep, *ENDS)
    again = client.post(f"/runs/{sweep}/rerun", {"run_id": f"{sweep}again"})["id"]
    ended = wait_for(client, again, *ENDS)
    assert ended["properties"]["best_child_run_id"] == f"{again}_0"
    assert ended["properties"]["runyard.rerun_of"] == sweep


@pytest.mark.parametrize("named", ["HD_other_0", {"a": 1}, None])
def test_nobody_asks_for_the_outputs_of_another_run(client: WireClient, named: object) -> None:
    sweep = a_body(client)
    plain = {**sweep, "type": "azureml.scriptrun", "definition": {**sweep["definition"], "runyard": {}}}
    for body in (sweep, plain):
        ours = {**body["definition"]["runyard"], "outputs_of": named}
        answer = refused(client, {**body, "definition": {**body["definition"], "runyard": ours}})
        assert (answer["status"], "runyard.outputs_of" in answer["problem"]) == (400, True)


def test_a_resumed_child_that_is_made_again_has_the_same_outputs_before_it(client: WireClient) -> None:
    writes = "import os\nos.makedirs('outputs', exist_ok=True)\nopen('outputs/state', 'a').write('more ')\n"
    first = post(client, a_body(client, writes, max_total_runs=1))
    wait_for(client, first, *ENDS)
    resumed = a_body(client, writes, f"{first}resumed", max_total_runs=1, resume_child_runs=[f"{first}_0"])
    child = f"{post(client, resumed)}_0"
    wait_for(client, f"{first}resumed", *ENDS)
    again = client.post(f"/runs/{child}/rerun", {"run_id": f"{first}again"})["id"]
    assert wait_for(client, again, *ENDS)["status"] == "Completed"
    assert client.read(f"/runs/{again}/files/outputs/state") == b"more more "


def test_the_ids_of_children_to_come_are_kept_for_them(client: WireClient) -> None:
    sweep = post(client, a_body(client, WAITS))
    answer = refused(client, {"run_id": f"{sweep}_2", "interactive": True})
    assert (answer["status"], sweep in answer["problem"]) == (409, True)
    client.interactive_run(f"{sweep}_02")
    client.post(f"/runs/{sweep}/cancel")
    wait_for(client, sweep, "Canceled")


def test_a_child_stays_while_its_sweep_goes_on(client: WireClient) -> None:
    sweep = post(client, a_body(client, WAITS, max_total_runs=2))
    first = going_on(client, sweep)
    client.post(f"/runs/{first}/cancel")
    wait_for(client, first, "Canceled")
    answer = client.refusal("DELETE", f"/runs/{first}")
    assert (answer["status"], "still going on" in answer["problem"]) == (409, True)
    client.post(f"/runs/{sweep}/cancel")
    wait_for(client, sweep, "Canceled")
    client.delete(f"/runs/{sweep}")
    assert client.refusal("GET", f"/runs/{sweep}_1")["status"] == 404


def test_a_repeated_submit_makes_one_sweep(client: WireClient) -> None:
    body = a_body(client, max_total_runs=1)
    sweep = post(client, body)
    wait_for(client, sweep, *ENDS)
    assert post(client, body) == sweep
    assert list(children_of(client, sweep)) == [f"{sweep}_0"]


def test_one_child_builds_the_environment_of_all(client: WireClient, tmp_path: Path) -> None:
    body = a_body(client, "import example_package\n", max_total_runs=4)
    package = tmp_path / "example-package"
    package.mkdir()
    (package / "pyproject.toml").write_text('[project]\nname = "example-package"\nversion = "1.0"\n')
    (package / "example_package.py").write_text("")
    pip = {"pip": [f"example-package @ {package.as_uri()}"]}
    python = {"userManagedDependencies": False, "condaDependencies": {"dependencies": ["python", pip]}}
    body["definition"]["environment"] = {"python": python}
    sweep = post(client, body)
    assert wait_for(client, sweep, *ENDS)["status"] == "Completed"
    events = {child: client.get(f"/runs/{child}/events")["events"] for child in children_of(client, sweep)}
    built = [child for child, told in events.items() if "Preparing" in [event["text"] for event in told]]
    assert set(built) <= {f"{sweep}_0", f"{sweep}_1"}
    logs = [f"/runs/{child}/logs" for child in built]
    assert sum("20_image_build_log" in str(client.get(log)) for log in logs) == 1
