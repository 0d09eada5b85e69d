"""A script submitted through the SDK to a real service, and what the submitter sees of it."""

import os
import pwd
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from azureml.core import Experiment, Run, Workspace, get_run
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.exceptions import ActivityFailedException, ModelPathNotFoundException, UserErrorException
from tests.sdk.yard import LOGGING_SCRIPT, config, submit


def test_a_run_tells_its_whole_story(
    experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = submit(experiment, tmp_path / "source", LOGGING_SCRIPT, "--rate", 0.5)
    details = run.wait_for_completion(show_output=True)
    page = run.get_portal_url()
    assert capsys.readouterr().out.splitlines() == [
        f"RunId: {run.id}",
        f"Web View: {page}",
        "",
        "Streaming azureml-logs/70_driver_log.txt",
        "=" * 40,
        "",
        "arguments --rate 0.5",
        f"inside {{'loss': {[1.0, 0.5, 1 / 3]}}} story",
        "",
        "Execution Summary",
        "=================",
        f"RunId: {run.id}",
        f"Web View: {page}",
        "",
    ]
    assert details["status"] == details.status == run.get_status() == "Completed"
    assert details["runDefinition"]["arguments"] == ["--rate", "0.5"]
    assert "runyard" not in details["runDefinition"]
    assert details["submittedBy"] == pwd.getpwuid(os.getuid()).pw_name
    assert run.get_metrics() == {"loss": [1.0, 0.5, 1 / 3], "row": {"x": 1, "y": 2}, "list": [1, 2, 3]}
    assert run.get_tags() == {"colour": "blue"}
    assert run.get_properties()["author"] == "me"
    assert run.get_file_names() == ["azureml-logs/70_driver_log.txt", "extra/notes.txt", "outputs/model/weights.txt"]
    (child,) = run.get_children()
    assert (child.status, child.name, child.get_metrics(), child.parent) == ("Completed", "child", {"depth": 1}, run)
    assert run.get_metrics(recursive=True)[child.id] == {"depth": 1}


@pytest.mark.parametrize("name", ["größe", "exp実験", "x" + "実" * 120])
def test_names_of_experiments_may_be_in_any_language(workspace: Workspace, tmp_path: Path, name: str) -> None:
    run = submit(Experiment(workspace, name), tmp_path / "source", LOGGING_SCRIPT)
    assert run.wait_for_completion()["status"] == "Completed"
    assert run.get_metrics()["list"] == [1, 2, 3]
    assert "outputs/model/weights.txt" in run.get_file_names()
    assert [one.id for one in Experiment(workspace, name).get_runs()] == [run.id]


def test_files_and_models_come_out_of_a_finished_run(experiment: Experiment, tmp_path: Path) -> None:
    run = submit(experiment, tmp_path / "source", LOGGING_SCRIPT)
    run.wait_for_completion()
    run.download_file("outputs/model/weights.txt", str(tmp_path / "down") + "/")
    assert (tmp_path / "down" / "weights.txt").read_text() == "weights"
    run.download_files("outputs", str(tmp_path / "all"))
    assert (tmp_path / "all" / "outputs" / "model" / "weights.txt").is_file()
    run.download_files("outputs", str(tmp_path / "short"), append_prefix=False)
    assert (tmp_path / "short" / "model" / "weights.txt").is_file()
    with pytest.raises(UserErrorException, match=r"nothing\.txt.*extra/notes\.txt"):
        run.download_file("nothing.txt")
    model = run.register_model("net", model_path="./outputs/model")
    assert (model.name, model.version) == ("net", 1)
    with pytest.raises(ModelPathNotFoundException, match=r"outputs/model/weights\.txt"):
        run.register_model("other")
    assert run.restore_snapshot(path=str(tmp_path)).endswith(run.get_snapshot_id() + ".zip")
    assert run.get_details_with_logs()["logFiles"]["azureml-logs/70_driver_log.txt"].startswith("arguments")


def test_a_script_that_raises_fails_the_wait_with_its_own_words(experiment: Experiment, tmp_path: Path) -> None:
    run = submit(experiment, tmp_path / "source", "raise ValueError('no such luck')")
    with pytest.raises(ActivityFailedException, match="ValueError: no such luck"):
        run.wait_for_completion()
    details = run.wait_for_completion(raise_on_error=False)
    assert details["status"] == "Failed"
    assert "no such luck" in details["error"]["error"]["message"]


WORKSPACES_SCRIPT = """
from azureml.core import Run, Workspace

own = Workspace.from_config()
assert own.name == Run.get_context().experiment.workspace.name
own.write_config()
assert Workspace.from_config().name == own.name
Workspace.create("another", show_output=False)
"""


def test_a_script_finds_its_own_workspace_and_makes_no_other(experiment: Experiment, tmp_path: Path) -> None:
    run = submit(experiment, tmp_path / "source", WORKSPACES_SCRIPT)
    with pytest.raises(ActivityFailedException, match="may not make, change or delete a workspace"):
        run.wait_for_completion()


def test_a_canceled_run_does_not_raise(experiment: Experiment, tmp_path: Path) -> None:
    run = submit(experiment, tmp_path / "source", "import signal; signal.pause()")
    run.cancel()
    assert run.wait_for_completion()["status"] == "Canceled"
    run.cancel()


def test_the_submitter_can_fail_and_complete_a_run_of_its_own(experiment: Experiment, tmp_path: Path) -> None:
    run = submit(experiment, tmp_path / "source", "import signal; signal.pause()")
    run.fail(error_details="the data was wrong", error_code="BadData")
    assert run.get_status() == "Failed"
    error = run.get_details()["error"]["error"]
    assert (error["code"], error["message"]) == ("BadData", "the data was wrong")
    other = submit(experiment, tmp_path / "source", "import signal; signal.pause()")
    other.complete()
    assert other.get_status() == "Completed"


def test_runs_are_listed_newest_first_and_found_again(experiment: Experiment, tmp_path: Path) -> None:
    first = experiment.submit(config(tmp_path / "source", "pass"), tags={"kind": "a"})
    second = experiment.submit(config(tmp_path / "source", "pass"), tags={"kind": "b"})
    assert list(experiment.get_runs()) == [second, first]
    assert list(experiment.get_runs(tags={"kind": "a"})) == [first]
    assert list(experiment.get_runs(tags="kind", type="hyperdrive")) == []
    assert get_run(experiment, first.id) == Run.get(experiment.workspace, first.id) == first
    assert repr(first).startswith(f"Run(Experiment: story,\nId: {first.id},\nType: azureml.scriptrun,\nStatus: ")
    for run in (first, second):
        run.wait_for_completion()


def test_ctrl_c_ends_the_waiting_and_not_the_run(experiment: Experiment, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = submit(
        experiment, tmp_path / "source", "import sys; print('begun', flush=True); open(sys.argv[1]).read()", gate
    )
    code = f"""
        from azureml.core import Run, Workspace
        from azureml.exceptions import ExperimentExecutionException
        try:
            Run.get(Workspace.get({experiment.workspace.name!r}), {run.id!r}).wait_for_completion(show_output=True)
        except ExperimentExecutionException as error:
            print("goes on" if "the run goes on" in str(error) else error)
    """
    waiting = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        text=True,
        # What a shell starts in the background is deaf to Ctrl-C, and so are its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert waiting.stdout is not None
    for line in waiting.stdout:
        if line == "begun\n":
            break
    waiting.send_signal(signal.SIGINT)
    assert waiting.communicate()[0].strip() == "goes on"
    assert run.get_status() == "Running"
    gate.write_text("go")
    assert run.wait_for_completion()["status"] == "Completed"


def test_a_follower_outlives_the_service(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RUNYARD_HOME", str(home))
    experiment = Experiment(Workspace.create("killed", show_output=False), "story")
    text = """
        import os, signal, sys
        from azureml.core import Run
        print("before", flush=True)
        Run.get_context().log("step", 1)
        os.kill(int(sys.argv[1]), signal.SIGKILL)
        print("after", flush=True)
        Run.get_context().log("step", 2)
    """
    pid = experiment._client.get("/health")["pid"]
    run = submit(experiment, tmp_path / "source", textwrap.dedent(text), pid)
    assert run.wait_for_completion(show_output=True)["status"] == "Completed"
    said = capsys.readouterr().out.splitlines()
    assert (said.count("before"), said.count("after")) == (1, 1)
    assert run.get_metrics() == {"step": [1, 2]}
    assert experiment._client.get("/health")["pid"] != pid


def test_a_gpu_that_is_not_there_is_a_warning_of_the_run_for_those_who_print_nothing(
    experiment: Experiment, tmp_path: Path
) -> None:
    asked = AmlCompute.provisioning_configuration(vm_size="STANDARD_NC6", max_nodes=1)
    ComputeTarget.create(experiment.workspace, "nc6", asked).wait_for_completion()
    source = config(tmp_path / "source", "print('on')")
    source.run_config.target = "nc6"
    run = experiment.submit(source)
    with pytest.warns(UserWarning, match=r"vm_size='STANDARD_NC6', but .* no GPU; the whole run takes the CPU"):
        details = run.wait_for_completion()
    assert "no GPU" in details["warnings"][0]["message"]
