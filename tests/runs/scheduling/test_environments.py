"""Runs that wait for their environment, and runs that want nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.definitions.node_report import NodeReport
from runyard.core.principal import OWNER
from runyard.core.records.runs import RunId, RunStatus
from runyard.runs.kinds.build import BUILD_TYPE
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import a_run, a_workspace
from tests.runs.scheduling.scripted import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    yield Stage(stores, tmp_path)
    stores.close()


def submitted(
    stage: Stage,
    run_id: str = "r1",
    *,
    is_build: bool = False,
    workspace: str = "vision",
    submitter: dict[str, str] | None = None,
    **docker: object,
) -> str:
    """The attempt that prepares it: its environment is in no cache."""
    definition = {
        "target": "local",
        "script": "train.py",
        "environment": {
            "python": {"condaDependencies": {"dependencies": ["python=3.11", {"pip": ["numpy"]}]}},
            "docker": docker,
        },
        "runyard": {
            "submitter": {"variables": submitter or {}},
            **({"build": {"force": False}} if is_build else {}),
        },
    }
    type_ = BUILD_TYPE if is_build else "azureml.scriptrun"
    stage.stores.runs.create(a_run(run_id, type=type_, target="local", definition=definition, workspace=workspace))
    stage.controller.advance(RunId(run_id))
    assert stage.get(run_id).status is RunStatus.PREPARING
    return stage.get(run_id).ticket


def herd(stage: Stage, count: int = 20) -> list[str]:
    """So many runs of one environment, of which the first builds it."""
    names = [f"run{number}" for number in range(count)]
    assert [bool(submitted(stage, name)) for name in names] == [True] + [False] * (count - 1)
    return names


def failed(stage: Stage, run_id: str, cause: str) -> None:
    error = {"code": "UserError", "message": "demo is nowhere.", "cause": cause, "said": "the tool's own line"}
    stage.controller.report(
        OWNER, stage.get(run_id).ticket, NodeReport.parse({"state": "ended", "outcome": "failed", "error": error})
    )
    stage.controller.advance(RunId(run_id))


def prepared(stage: Stage, attempt: str, lock: str = "numpy==1.26.0\n") -> None:
    stage.controller.report(
        OWNER, attempt, NodeReport.parse({"state": "prepared", "environment_key": "k", "lock": lock})
    )
    stage.controller.advance(RunId(attempt.rpartition(".")[0]))


def test_a_node_that_says_the_environment_stands_is_believed(stage):
    attempt = submitted(stage)
    prepared(stage, attempt)
    run = stage.get()
    assert (run.status, run.environment_lock) == (RunStatus.STARTING, "numpy==1.26.0\n")


def test_another_attempts_word_does_not_count(stage):
    attempt = submitted(stage)
    prepared(stage, attempt.replace(".1", ".7"))
    assert stage.get().status is RunStatus.PREPARING


def test_a_build_ends_where_other_runs_start(stage):
    attempt = submitted(stage, is_build=True)
    assert [plan.kind for plan in stage.engine.plans.values()] == ["prepare"]
    prepared(stage, attempt)
    run = stage.get()
    assert (run.status, run.environment_lock) == (RunStatus.COMPLETED, "numpy==1.26.0\n")
    assert run.ended_at is not None
    assert len(stage.engine.plans) == 1


def test_a_build_whose_service_was_killed_is_carried_on(stage):
    attempt = submitted(stage, is_build=True)
    stage.open()
    prepared(stage, attempt)
    assert stage.get().status is RunStatus.COMPLETED


def test_a_build_is_canceled_as_runs_are(stage):
    attempt = submitted(stage, is_build=True)
    stage.controller.cancel(RunId("r1"))
    assert [end_as for _, end_as in stage.engine.stops] == ["canceled"]
    stage.controller.report(OWNER, attempt, NodeReport.parse({"state": "ended", "outcome": "canceled"}))
    assert stage.get().status is RunStatus.CANCELED


def test_the_cause_of_a_failed_environment_is_told_to_programs(stage):
    attempt = submitted(stage)
    error = {"code": "UserError", "message": "No.", "cause": "no_such_package", "said": "not found in the index"}
    stage.controller.report(
        OWNER, attempt, NodeReport.parse({"state": "ended", "outcome": "failed", "phase": "Preparing", "error": error})
    )
    told = stage.get().error["error"]["messageParameters"]
    assert (told["cause"], told["said"]) == ("no_such_package", "not found in the index")


@pytest.mark.parametrize("error", [{"message": "x", "cause": 7, "said": ["a"]}, {"message": "x", "said": "y" * 10**6}])
def test_a_cause_that_no_node_would_tell_does_no_harm(stage, error):
    attempt = submitted(stage)
    stage.controller.report(OWNER, attempt, NodeReport.parse({"state": "ended", "outcome": "failed", "error": error}))
    run = stage.get()
    assert run.status is RunStatus.FAILED
    assert all(len(value) <= 2000 for value in run.error["error"]["messageParameters"].values())


class TestHerd:
    def test_one_of_many_builds_and_all_go_on_with_it(self, stage):
        names = herd(stage)
        assert [plan.kind for plan in stage.engine.plans.values()] == ["prepare"]
        assert stage.get("run7").message == "Waiting for run run0, which builds the same environment."
        prepared(stage, stage.get("run0").ticket)
        assert {stage.get(name).status for name in names[1:]} == {RunStatus.QUEUED}
        for name in names[1:]:
            stage.controller.advance(RunId(name))
        assert {stage.get(name).status for name in names} == {RunStatus.STARTING}
        assert sorted(plan.kind for plan in stage.engine.plans.values()) == ["prepare"] + ["run"] * len(names)

    @pytest.mark.parametrize("outcome", ["failed", "canceled"])
    def test_the_next_builds_where_the_first_could_not(self, stage, outcome):
        herd(stage, 3)
        if outcome == "canceled":
            stage.controller.cancel(RunId("run0"))
        error = {"code": "UserError", "message": "no"}
        stage.controller.report(
            OWNER, stage.get("run0").ticket, NodeReport.parse({"state": "ended", "outcome": outcome, "error": error})
        )
        stage.controller.reconcile()
        assert [bool(stage.get(name).ticket) for name in ("run1", "run2")] == [True, False]
        assert "run1" in stage.get("run2").message

    def test_all_fail_at_once_with_what_another_try_would_not_mend(self, stage):
        names = herd(stage)
        failed(stage, "run0", "no_such_package")
        assert {stage.get(name).status for name in names} == {RunStatus.FAILED}
        told = stage.get("run19").error["error"]
        assert told["messageParameters"] == {"cause": "no_such_package", "said": "the tool's own line"}
        assert told["code"] == "UserError"
        assert "run0" in told["message"]
        assert "demo is nowhere" in told["message"]
        assert [plan.kind for plan in stage.engine.plans.values()] == ["prepare"]

    def test_who_waited_fails_though_another_has_begun_to_build_meanwhile(self, stage):
        herd(stage, 3)
        error = {"code": "UserError", "message": "demo is nowhere.", "cause": "conflict"}
        stage.controller.report(
            OWNER, stage.get("run0").ticket, NodeReport.parse({"state": "ended", "outcome": "failed", "error": error})
        )
        assert submitted(stage, "later")
        stage.controller.advance(RunId("run0"))
        assert [stage.get(name).status for name in ("run1", "run2")] == [RunStatus.FAILED, RunStatus.FAILED]
        assert stage.get("later").status is RunStatus.PREPARING

    @pytest.mark.parametrize("cause", ["network", "disk_full", "killed", "wrong_credentials"])
    def test_one_tries_again_at_once_where_that_may_help(self, stage, cause):
        names = herd(stage, 3)
        failed(stage, "run0", cause)
        assert [bool(stage.get(name).ticket) for name in names[1:]] == [True, False]
        assert stage.get("run2").message == "Waiting for run run1, which builds the same environment."

    def test_a_run_that_comes_after_the_failure_tries_for_itself(self, stage):
        herd(stage, 2)
        failed(stage, "run0", "conflict")
        assert submitted(stage, "later")

    def test_what_fails_in_one_workspace_or_for_one_submitter_says_nothing_of_others(self, stage):
        assert submitted(stage, "mine")
        assert submitted(stage, "theirs", submitter={"PATH": "/opt/theirs/bin"})
        stage.stores.assets.create_workspace(a_workspace(name="other"))
        assert submitted(stage, "elsewhere", workspace="other")

    def test_one_that_waits_is_canceled_at_once(self, stage):
        names = herd(stage, 3)
        stage.controller.cancel(RunId("run1"))
        assert stage.get("run1").status is RunStatus.CANCELED
        prepared(stage, stage.get("run0").ticket)
        assert [stage.get(name).status for name in names[1:]] == [RunStatus.CANCELED, RunStatus.QUEUED]

    def test_a_new_service_has_them_find_one_another_again(self, stage):
        names = herd(stage, 3)
        stage.open()
        stage.controller.reconcile()
        builds = [stage.get(name).ticket for name in names[1:]]
        assert sorted(map(bool, builds)) == [False, True]
        prepared(stage, next(filter(None, builds)))
        stage.controller.reconcile()
        assert all(stage.get(name).status is not RunStatus.PREPARING for name in names[1:])

    def test_a_build_that_waited_ends_with_the_others(self, stage):
        first = submitted(stage, "first")
        assert submitted(stage, "build", is_build=True) == ""
        prepared(stage, first)
        stage.controller.advance(RunId("build"))
        assert stage.get("build").status is RunStatus.COMPLETED

    def test_other_environments_do_not_wait(self, stage):
        herd(stage, 2)
        assert submitted(stage, "other", enabled=True, baseImage="debian:12")
