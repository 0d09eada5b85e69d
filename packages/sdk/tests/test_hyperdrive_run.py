import contextlib
import io
import json
import os
import re
import sys
import tempfile
import types
import unittest
import warnings

from azureml.core import Experiment, Run, ScriptRunConfig
from azureml.core.run import get_run
from azureml.exceptions import ActivityFailedException
from azureml.train.estimator import Estimator
from azureml.train.hyperdrive import (
    BanditPolicy, HyperDriveConfig, HyperDriveRun, MedianStoppingPolicy, PrimaryMetricGoal, RandomParameterSampling,
    uniform)
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException, HyperDriveNotImplementedException
from runyard_sdk.errors import RunyardError
from runyard_sdk.tuning import trials_frame
from tests.stand_in_service import StandInService

SWEEP = "HD_1"
SPEC = {"sampling": {"name": "RANDOM", "parameter_space": {"lr": ["uniform", [0, 1]]}},
        "policy": {"name": "MedianStopping", "properties": {"evaluation_interval": 1, "delay_evaluation": 0}},
        "primary_metric": {"name": "acc", "goal": "maximize"}, "max_total_runs": 3, "max_concurrent_runs": 2,
        "max_duration_minutes": 60, "resume_from": [], "resume_child_runs": []}
STOP = {"policy": "MedianStopping", "interval": 2, "value": 0.1, "held_against": 0.5, "text": "worse than the median"}


def record(run_id=SWEEP, kind="hyperdrive", status="Running", **changes):
    return dict({"id": run_id, "type": kind, "status": status, "experiment": "story", "number": 1, "target": "local",
                 "definition": {}, "parent_id": None, "tags": {"mine": "1"}, "properties": {}, "warnings": [],
                 "log_files": []}, **changes)


def child(number, status="Completed"):
    return record("%s_%d" % (SWEEP, number), "azureml.scriptrun", status, parent_id=SWEEP)


def trial(number, best, status="Completed", stop=None, lr=0.5):
    return {"run_id": "%s_%d" % (SWEEP, number), "number": number, "hyperparameters": json.dumps({"lr": lr}),
            "best_primary_metric": best, "status": status, "intervals": 0 if best is None else 2, "stop": stop}


RANKED = [trial(1, 0.9, "Failed"), trial(2, 0.8, "Canceled", STOP), trial(0, 0.7), trial(3, None, "Running")]


class WithService(unittest.TestCase):
    def setUp(self):
        self.service = StandInService()
        self.addCleanup(self.service.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(self.folder, "train.py"), "w") as script:
            script.write("print(1)\n")
        self.experiment = Experiment(self.service.workspace, "story", _create_in_cloud=False)
        self.answers = self.service.answers
        self.answers["GET runs/" + SWEEP] = [record()]
        self.answers["GET runs/HD_1/trials"] = [{"primary_metric": SPEC["primary_metric"], "trials": RANKED}]
        for number, status in ((0, "Completed"), (1, "Failed"), (2, "Canceled")):
            self.answers["GET runs/HD_1_%d" % number] = [child(number, status)]

    def asked(self, path):
        return [query for method, where, query, _ in self.service.asked if where == path]


class Submitting(WithService):
    def config(self, **changes):
        settings = dict(hyperparameter_sampling=RandomParameterSampling({"lr": uniform(0, 1)}, {"seed": 1}),
                        primary_metric_name="acc", primary_metric_goal=PrimaryMetricGoal.MAXIMIZE, max_total_runs=3,
                        policy=BanditPolicy(slack_factor=0.1))
        settings.update(changes)
        if "estimator" not in changes:
            settings["run_config"] = ScriptRunConfig(self.folder, "train.py", ["--epochs", 2])
        return HyperDriveConfig(**settings)

    def submitted(self, config, **more):
        self.answers["POST experiments/story/runs"] = [record()]
        run = self.experiment.submit(config, **more)
        return run, self.service.bodies("POST", "experiments/story/runs")[-1]

    def test_a_sweep_is_the_run_of_a_child_with_the_sweep_in_it(self):
        config = self.config()
        run, body = self.submitted(config)
        self.assertIsInstance(run, HyperDriveRun)
        self.assertIs(run.hyperdrive_config, config)
        self.assertEqual(body["type"], "hyperdrive")
        self.assertTrue(re.match(r"^HD_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", body["run_id"]), body["run_id"])
        self.assertEqual(body["definition"]["arguments"], ["--epochs", "2"])
        sweep = body["definition"]["runyard"]["sweep"]
        self.assertEqual(sweep["sampling"], {"name": "RANDOM", "parameter_space": {"lr": ["uniform", [0, 1]]},
                                             "properties": {"seed": 1}})
        self.assertEqual((sweep["max_total_runs"], sweep["max_concurrent_runs"]), (3, 3))
        self.assertEqual([entry[0] for entry in body["snapshot"]], ["train.py"])

    def test_tags_and_properties_are_those_of_the_original(self):
        _, body = self.submitted(self.config(), tags={"team": "blue"})
        tags, properties = body["tags"], body["properties"]
        self.assertEqual(json.loads(tags["primary_metric_config"]), {"name": "acc", "goal": "maximize"})
        self.assertEqual(json.loads(tags["generator_config"])["name"], "RANDOM")
        self.assertEqual(json.loads(tags["policy_config"])["name"], "Bandit")
        self.assertEqual((tags["max_total_jobs"], tags["max_concurrent_jobs"], tags["max_duration_minutes"]),
                         ("3", "3", "10080"))
        self.assertIn("platform_config", tags)
        for name in [name for name in tags if name not in ("team",) and not name.startswith("_aml_system_")]:
            self.assertEqual(tags["_aml_system_" + name], tags[name])
        self.assertEqual(tags["team"], "blue")
        self.assertEqual(json.loads(properties["primary_metric_config"])["name"], "acc")
        self.assertEqual([properties[name] for name in (
            "runTemplate", "azureml.runsource", "platform", "resume_from")], [
                "HyperDrive", "hyperdrive", "AML", "null"])

    def test_an_id_of_ones_own_is_used(self):
        self.assertEqual(self.submitted(self.config(custom_run_id="mine"))[1]["run_id"], "mine")
        with self.assertRaisesRegex(HyperDriveConfigException, "custom_run_id 'HD_1' is that of a run that there is"):
            self.submitted(self.config(custom_run_id=SWEEP))

    def test_script_params_that_are_sampled_are_dropped_and_said(self):
        estimator = Estimator(self.folder, compute_target="local", entry_script="train.py",
                              script_params={"--lr": 0.1, "--epochs": 2})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, body = self.submitted(self.config(estimator=estimator))
        self.assertIn("script_params gives --lr", " ".join(str(one.message) for one in caught))
        self.assertEqual(body["definition"]["arguments"], ["--epochs", "2"])
        self.assertEqual(estimator.run_config.arguments, ["--lr", "0.1", "--epochs", "2"])

    def test_earlier_runs_are_sent_by_their_ids(self):
        sweep, done = get_run(self.experiment, SWEEP), get_run(self.experiment, "HD_1_0")
        _, body = self.submitted(self.config(resume_from=[sweep], resume_child_runs=done))
        sent = body["definition"]["runyard"]["sweep"]
        self.assertEqual((sent["resume_from"], sent["resume_child_runs"]), (["HD_1"], ["HD_1_0"]))
        self.assertEqual(body["properties"]["resume_from"], '["HD_1"]')

    def test_only_runs_that_can_be_resumed_are_taken(self):
        sweep, done = get_run(self.experiment, SWEEP), get_run(self.experiment, "HD_1_0")
        for said, changes in (("run HD_1_0 is of type azureml.scriptrun", {"resume_from": [done]}),
                              ("run HD_1 has no parent", {"resume_child_runs": [sweep]}),
                              ("resume_from names a run twice", {"resume_from": [sweep, sweep]}),
                              ("resume_from takes at most 5 runs, got 6", {"resume_from": [sweep] * 6})):
            with self.assertRaisesRegex(HyperDriveConfigException, said):
                self.config(**changes)

    def test_nothing_else_can_be_given_at_submit(self):
        with self.assertRaisesRegex(HyperDriveConfigException, "takes no script_params at submit"):
            self.experiment.submit(self.config(), script_params={})


class Reading(WithService):
    def made(self):
        return HyperDriveRun(self.experiment, SWEEP)

    def test_every_way_to_a_sweep_gives_a_hyperdrive_run(self):
        self.answers["GET runs"] = [{"runs": [record()], "next": None}]
        config = object()
        given = HyperDriveRun(experiment=self.experiment, run_id=SWEEP, hyperdrive_config=config)
        self.assertIs(given.hyperdrive_config, config)
        self.assertIs(HyperDriveRun(self.experiment, SWEEP, config).hyperdrive_run_config, config)
        for found in (Run.get(self.service.workspace, SWEEP), get_run(self.experiment, SWEEP),
                      self.service.workspace.get_run(SWEEP), next(self.experiment.get_runs(type="hyperdrive")),
                      get_run(self.experiment, "HD_1_0").parent):
            self.assertIsInstance(found, HyperDriveRun)
        self.assertNotIsInstance(get_run(self.experiment, "HD_1_0"), HyperDriveRun)

    def test_another_run_is_no_sweep(self):
        with self.assertRaisesRegex(HyperDriveConfigException, "HD_1_0 is no sweep: its type is azureml.scriptrun"):
            HyperDriveRun(self.experiment, "HD_1_0")

    def test_the_best_run_is_asked_for_in_one_request_over_the_trials(self):
        self.assertEqual(self.made().get_best_run_by_primary_metric().id, "HD_1_1")
        self.assertEqual(self.asked("runs/HD_1/trials"), ["discard_no_metric=1&resumed=1&top=1"])

    def test_the_best_run_leaves_out_what_it_is_told_to(self):
        sweep = self.made()
        told = {"Failed": (False,), "Canceled": (True, False), "Failed%2CCanceled": (False, False)}
        for left_out, arguments in sorted(told.items()):
            sweep.get_best_run_by_primary_metric(*arguments)
            asked = "discard_no_metric=1&leave_out={}&resumed=1&top=1".format(left_out)
            self.assertEqual(self.asked("runs/HD_1/trials")[-1], asked)
        sweep.get_best_run_by_primary_metric(include_resume_from_runs=False)
        self.assertEqual(self.asked("runs/HD_1/trials")[-1], "discard_no_metric=1&top=1")

    def test_there_is_no_best_run_where_nothing_was_logged(self):
        self.answers["GET runs/HD_1/trials"] = [{"primary_metric": {}, "trials": []}]
        self.assertIsNone(self.made().get_best_run_by_primary_metric())

    def test_sorted_children_have_the_keys_of_the_original(self):
        sweep = self.made()
        self.assertEqual(sweep.get_children_sorted_by_primary_metric()[0], {
            "run_id": "HD_1_1", "hyperparameters": '{"lr": 0.5}', "best_primary_metric": 0.9, "status": "Failed"})
        sweep.get_children_sorted_by_primary_metric(top=2, reverse=True, discard_no_metric=True)
        self.assertEqual(self.asked("runs/HD_1/trials"), ["", "discard_no_metric=1&reverse=1&top=2"])
        with self.assertRaisesRegex(HyperDriveConfigException, "top must be at least 0, got -1"):
            sweep.get_children_sorted_by_primary_metric(top=-1)

    def test_hyperparameters_are_json_by_child_and_tags_of_the_sweep(self):
        sweep = self.made()
        values = {"HD_1_%d" % number: '{"lr": 0.5}' for number in range(4)}
        self.assertEqual(sweep.get_hyperparameters(), values)
        self.assertEqual(sweep.tags, dict(values, mine="1"))
        self.assertEqual(sweep.get_tags(), dict(values, mine="1"))

    def test_a_sweep_that_was_looked_up_knows_its_config(self):
        self.answers["GET runs/HD_1/sweep"] = [{"sweep": SPEC}]
        config = self.made().hyperdrive_config
        self.assertEqual(config._to_json(), SPEC)
        self.assertEqual(config._policy, MedianStoppingPolicy())

    def test_cancel_says_that_it_was_asked_for(self):
        self.answers["POST runs/HD_1/cancel"] = [record(status="CancelRequested")]
        sweep = self.made()
        self.assertIs(sweep.cancel(), True)
        self.assertEqual(sweep.status, "CancelRequested")

    def test_fail_is_not_implemented(self):
        for kind in (HyperDriveNotImplementedException, NotImplementedError):
            with self.assertRaises(kind):
                self.made().fail()

    def test_class_attributes_are_those_of_the_original(self):
        self.assertEqual((HyperDriveRun.RUN_TYPE, HyperDriveRun.HYPER_DRIVE_RUN_USER_AGENT, HyperDriveRun.RUN_PATH),
                         ("hyperdrive", "sdk_run_hyper_drive", "/runs/{0}"))


class Waiting(WithService):
    def streamed(self, ended, raise_on_error=True):
        events = [{"status": "Running", "message": ""},
                  {"log": "azureml-logs/hyperdrive.txt", "offset": 0, "next": 20, "text": "<START>[t][API]x<END>\n"},
                  {"end": ended}]
        self.answers["GET runs/HD_1"] = [record(), ended]
        self.answers["GET runs/HD_1/stream"] = ["".join(json.dumps(event) + "\n" for event in events).encode()]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            sweep = HyperDriveRun(self.experiment, SWEEP)
            try:
                details = sweep.wait_for_completion(show_output=True, raise_on_error=raise_on_error)
            except ActivityFailedException as error:
                details = error
        return said.getvalue(), details

    def test_it_shows_the_log_of_the_sweep_and_its_warnings(self):
        said, details = self.streamed(record(status="Completed", warnings=["2 of 3 children failed."],
                                             web_view="http://here/runs/HD_1"))
        self.assertEqual(said.splitlines()[1:], [
            "Web View: http://127.0.0.1:%s/runs/HD_1" % self.service.address.rpartition(":")[2], "",
            "Streaming azureml-logs/hyperdrive.txt", "=" * 37, "", "<START>[t][API]x<END>", "", "Execution Summary",
            "=================", "RunId: HD_1", "Web View: http://here/runs/HD_1", "", "Warnings:",
            "2 of 3 children failed.", ""])
        self.assertEqual(details["status"], "Completed")

    def test_a_sweep_that_failed_raises_as_other_runs_do(self):
        failed = record(status="Failed", error={"error": {"code": "UserError", "message": "All 3 children failed."}})
        self.assertRegex(str(self.streamed(failed)[1]), "All 3 children failed.")
        self.assertEqual(self.streamed(failed, raise_on_error=False)[1]["status"], "Failed")


@contextlib.contextmanager
def pandas_being(module):
    """For interpreters that have no pandas, and for the case that one has none."""
    present = sys.modules.get("pandas")
    sys.modules["pandas"] = module
    try:
        yield
    finally:
        del sys.modules["pandas"]
        if present is not None:
            sys.modules["pandas"] = present


class Tables(WithService):
    def test_the_trials_are_a_table_with_a_column_for_each_hyperparameter(self):
        odd = dict(trial(4, 0.2), hyperparameters='{"--lr": 1, "status": "x"}')
        self.answers["GET runs/HD_1/trials"] = [{"trials": RANKED + [odd]}]
        with pandas_being(types.SimpleNamespace(DataFrame=dict)):
            columns = trials_frame(HyperDriveRun(self.experiment, SWEEP))
        self.assertEqual(columns["run_id"], ["HD_1_%d" % number for number in range(5)])
        self.assertEqual(columns["status"], ["Completed", "Failed", "Canceled", "Running", "Completed"])
        self.assertEqual(repr(columns["best_primary_metric"]), "[0.7, 0.9, 0.8, nan, 0.2]")
        self.assertEqual([columns[name][2] for name in ("stopped_by", "stopped_at", "stopped_because")], [
            "MedianStopping", 2, "worse than the median"])
        self.assertIsNone(columns["stopped_by"][0])
        self.assertEqual([columns[name] for name in ("lr", "--lr", "value_status")], [
            [0.5, 0.5, 0.5, 0.5, None], [None, None, None, None, 1], [None, None, None, None, "x"]])

    def test_without_pandas_it_says_what_to_install(self):
        with pandas_being(None), self.assertRaisesRegex(RunyardError, "pip install pandas"):
            trials_frame(HyperDriveRun(self.experiment, SWEEP))


if __name__ == "__main__":
    unittest.main()
