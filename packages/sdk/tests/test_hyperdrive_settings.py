import unittest
import warnings

from azureml._unsupported import NotYetException
from azureml.core import RunConfiguration, ScriptRunConfig
from azureml.exceptions import AzureMLException, TrainingException, UserErrorException
from azureml.train.estimator import Estimator
from azureml.train.hyperdrive import (
    BanditPolicy, BayesianParameterSampling, EarlyTerminationPolicy, GridParameterSampling, HyperDriveConfig,
    HyperDriveRunConfig, HyperParameterSampling, MedianStoppingPolicy, NoTerminationPolicy, PrimaryMetricGoal,
    RandomParameterSampling, TruncationSelectionPolicy, choice, lognormal, loguniform, normal, qlognormal, qloguniform,
    qnormal, quniform, randint, uniform)
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException, HyperDriveRehydrateException
from azureml.train.hyperdrive.policy import policy_of
from azureml.train.hyperdrive.sampling import sampling_of
from runyard_sdk.errors import InvalidArgument
from runyard_sdk.tuning import AshaPolicy

LR = {"--lr": uniform(0.1, 1)}
SCRIPT = ScriptRunConfig(".", "train.py")
MAXIMIZE = PrimaryMetricGoal.MAXIMIZE


class OfNumpy(object):
    """A scalar or an array as numpy has it."""

    def __init__(self, value):
        self._value = value

    def tolist(self):
        return self._value


class Refusals(unittest.TestCase):
    def refused(self, said, make, *arguments, **settings):
        with self.assertRaisesRegex(HyperDriveConfigException, said):
            make(*arguments, **settings)


class Expressions(Refusals):
    def test_they_have_the_form_of_the_original(self):
        self.assertEqual(choice(1, 2), ["choice", [[1, 2]]])
        self.assertEqual(uniform(0, 1), ["uniform", [0, 1]])
        self.assertEqual(quniform(0, 10, 2), ["quniform", [0, 10, 2]])
        self.assertEqual(loguniform(-6, -1), ["loguniform", [-6, -1]])
        self.assertEqual(qloguniform(0, 1, 0.5), ["qloguniform", [0, 1, 0.5]])
        self.assertEqual(normal(10, 3), ["normal", [10, 3]])
        self.assertEqual(qnormal(10, 3, 1), ["qnormal", [10, 3, 1]])
        self.assertEqual(lognormal(0, 1), ["lognormal", [0, 1]])
        self.assertEqual(qlognormal(0, 1, 1), ["qlognormal", [0, 1, 1]])
        self.assertEqual(randint(5), ["randint", [5]])

    def test_a_choice_is_made_of_one_list_range_or_array_as_well(self):
        for given in ([1, 2], (1, 2), range(1, 3), OfNumpy([1, 2])):
            self.assertEqual(choice(given), choice(1, 2))
        self.assertEqual(choice("adam"), ["choice", [["adam"]]])
        self.assertEqual(choice([1, 2], [3]), ["choice", [[[1, 2], [3]]]])

    def test_numbers_of_numpy_become_pythons(self):
        self.assertEqual(repr(uniform(OfNumpy(0.5), OfNumpy(1))), "['uniform', [0.5, 1]]")
        self.assertEqual(repr(choice(OfNumpy(3), 4)), "['choice', [[3, 4]]]")

    def test_what_cannot_be_drawn_from_is_refused_by_the_name_of_the_argument(self):
        nan = float("nan")
        self.refused("min_value must be below max_value, got 1 and 0", uniform, 1, 0)
        self.refused("min_value must be below max_value", loguniform, 2, 2)
        self.refused("q must be above 0, got 0", quniform, 0, 1, 0)
        self.refused("q must be above 0, got -1", qlognormal, 0, 1, -1)
        self.refused("sigma must be above 0, got 0", normal, 0, 0)
        self.refused("max_value must be a finite number, got nan", uniform, 0, nan)
        self.refused("max_value must be a finite number, got inf", uniform, 0, float("inf"))
        self.refused("mu must be a finite number, got 'a'", lognormal, "a", 1)
        self.refused("min_value must be a finite number, got True", uniform, True, 2)
        self.refused("upper must be at least 1, got 0", randint, 0)
        self.refused("upper must be a whole number, got 1.5", randint, 1.5)
        self.refused("choice needs at least one option", choice)
        self.refused("choice needs at least one option", choice, [])
        self.refused("options of choice", choice, 1, object())
        self.refused("options of choice", choice, nan)


class Samplings(Refusals):
    def test_they_are_written_as_the_original_writes_them(self):
        self.assertEqual(RandomParameterSampling(LR).to_json(), {"name": "RANDOM", "parameter_space": LR})
        seeded = BayesianParameterSampling(LR, properties={"seed": 7}).to_json()
        self.assertEqual((seeded["name"], seeded["properties"]), ("BayesianOptimization", {"seed": 7}))
        self.assertEqual(GridParameterSampling({"a": choice(1)}).to_json()["name"], "GRID")

    def test_equal_ones_are_equal_and_come_back_from_what_was_written(self):
        one = RandomParameterSampling(LR, {"seed": 1, "rule": "sobol"})
        self.assertEqual(one, RandomParameterSampling(dict(LR), {"seed": 1, "rule": "sobol"}))
        self.assertNotEqual(one, RandomParameterSampling(LR))
        self.assertNotEqual(RandomParameterSampling(LR), BayesianParameterSampling(LR))
        for made in (one, GridParameterSampling({"a": choice(1, "b")}), BayesianParameterSampling(LR)):
            again = sampling_of(made.to_json())
            self.assertEqual((again, type(again)), (made, type(made)))
            self.assertEqual(hash(again), hash(made))
        with self.assertRaisesRegex(HyperDriveRehydrateException, "'Newer', which this SDK does not know"):
            sampling_of({"name": "Newer", "parameter_space": LR})

    def test_each_takes_only_the_ranges_that_it_can_draw_from(self):
        self.refused("GridParameterSampling does not take uniform, the range of '--lr'. It takes: choice",
                     GridParameterSampling, LR)
        for expression in (normal(0, 1), loguniform(0, 1), randint(3), qnormal(0, 1, 1)):
            self.refused("BayesianParameterSampling does not take %s, the range of 'x'" % expression[0],
                         BayesianParameterSampling, {"x": expression})
            self.assertEqual(RandomParameterSampling({"x": expression})._parameter_space, {"x": expression})

    def test_a_space_that_is_none_is_refused(self):
        for space in ({}, [], None, "lr"):
            self.refused("parameter_space must be a dict", RandomParameterSampling, space)
        for range_ in (5, "uniform", ["uniform"], ["binomial", [1, 2]], ["uniform", 1, 2], [["uniform"], [0, 1]]):
            self.refused(r"parameter_space\['--lr'\] is no range of values", RandomParameterSampling, {"--lr": range_})
        self.refused("A name of parameter_space must be a text", RandomParameterSampling, {"": choice(1)})
        self.refused("A name of parameter_space must be a text", RandomParameterSampling, {3: choice(1)})
        self.refused("'lr' and '--lr', which both are the argument --lr", RandomParameterSampling,
                     {"lr": choice(1), "--lr": choice(2)})

    def test_ranges_written_by_hand_are_checked_as_those_that_are_made(self):
        self.refused(r"parameter_space\['q'\]: q must be above 0", RandomParameterSampling,
                     {"q": ["quniform", [0, 1, 0]]})
        self.refused(r"parameter_space\['u'\]: uniform does not take 3 arguments", RandomParameterSampling,
                     {"u": ["uniform", [0, 1, 2]]})

    def test_properties_that_cannot_be_right_are_refused(self):
        self.refused(r"properties\['rule'\] must be 'random' or 'sobol', got 'halton'", RandomParameterSampling, LR,
                     {"rule": "halton"})
        self.refused(r"properties\['seed'\] must be a whole number, got 'x'", RandomParameterSampling, LR,
                     {"seed": "x"})
        self.refused("properties must be a dict", RandomParameterSampling, LR, [1])

    def test_a_sampling_of_ones_own_names_what_it_takes(self):
        def unsure(arguments):
            raise ValueError("not %r" % arguments)

        with self.assertRaisesRegex(ValueError, "not .0, 1."):
            HyperParameterSampling("OWN", {"x": uniform(0, 1)}, supported_distributions={"uniform"},
                                   distributions_validators={"uniform": unsure})


class Policies(Refusals):
    def test_they_are_written_as_the_original_writes_them(self):
        self.assertEqual(BanditPolicy(evaluation_interval=2, slack_factor=0.1).to_json(), {
            "name": "Bandit", "properties": {"evaluation_interval": 2, "slack_factor": 0.1, "delay_evaluation": 0}})
        self.assertEqual(NoTerminationPolicy().to_json(), {"name": "Default", "properties": {}})
        self.assertEqual(MedianStoppingPolicy(delay_evaluation=5).to_json()["name"], "MedianStopping")

    def test_their_settings_can_be_read(self):
        bandit = BanditPolicy(2, slack_amount=0.5, delay_evaluation=3)
        self.assertEqual((bandit.evaluation_interval, bandit.slack_factor, bandit.slack_amount,
                          bandit.delay_evaluation), (2, None, 0.5, 3))
        self.assertEqual(TruncationSelectionPolicy(25).truncation_percentage, 25)

    def test_equal_ones_are_equal_and_come_back_from_what_was_written(self):
        self.assertNotEqual(BanditPolicy(slack_factor=0.1), BanditPolicy(slack_factor=0.2))
        for made in (BanditPolicy(slack_amount=1), MedianStoppingPolicy(2, 3), TruncationSelectionPolicy(10, 2),
                     NoTerminationPolicy(), AshaPolicy(4, 2, 64)):
            again = policy_of(made.to_json())
            self.assertEqual((again, type(again), hash(again)), (made, type(made), hash(made)))
        with self.assertRaisesRegex(HyperDriveRehydrateException, "'Newer', which this SDK does not know"):
            policy_of({"name": "Newer", "properties": {}})

    def test_settings_that_cannot_be_right_are_refused(self):
        self.refused("exactly one of slack_factor and slack_amount, got neither", BanditPolicy)
        self.refused("exactly one of slack_factor and slack_amount, got both", BanditPolicy, 1, 0.1, 0.1)
        self.refused("slack_factor must be at least 0, got -0.1", BanditPolicy, slack_factor=-0.1)
        self.refused("slack_amount must be a finite number, got 'a'", BanditPolicy, slack_amount="a")
        self.refused("evaluation_interval must be at least 1, got 0", MedianStoppingPolicy, 0)
        self.refused("delay_evaluation must be at least 0, got -1", MedianStoppingPolicy, 1, -1)
        self.refused("evaluation_interval must be a whole number, got 1.5", TruncationSelectionPolicy, 10, 1.5)
        for percentage in (0, 100):
            self.refused("truncation_percentage must be 1 to 99, got %d" % percentage, TruncationSelectionPolicy,
                         percentage)

    def test_asha_is_a_policy_like_the_others(self):
        self.assertIsInstance(AshaPolicy(), EarlyTerminationPolicy)
        self.assertEqual(AshaPolicy().to_json(), {
            "name": "ASHA", "properties": {"reduction_factor": 3, "min_intervals": 1}})
        self.assertEqual(AshaPolicy(max_intervals=81).max_intervals, 81)
        for name, settings in (("reduction_factor", {"reduction_factor": 1}), ("min_intervals", {"min_intervals": 0}),
                               ("max_intervals", {"min_intervals": 5, "max_intervals": 5})):
            with self.assertRaisesRegex(InvalidArgument, name):
                AshaPolicy(**settings)


class Configs(Refusals):
    def config(self, **changes):
        settings = dict(hyperparameter_sampling=RandomParameterSampling(LR), primary_metric_name="acc",
                        primary_metric_goal=MAXIMIZE, max_total_runs=4, run_config=SCRIPT)
        settings.update(changes)
        return HyperDriveConfig(**settings)

    def warned(self, make):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = make()
        return made, [str(one.message) for one in caught]

    def test_what_is_left_out_is_as_in_the_original(self):
        sweep = self.config()._to_json()
        self.assertEqual((sweep["max_concurrent_runs"], sweep["max_duration_minutes"]), (4, 10080))
        self.assertEqual(sweep["policy"], {"name": "Default", "properties": {}})
        self.assertEqual(sweep["primary_metric"], {"name": "acc", "goal": "maximize"})
        self.assertEqual((sweep["resume_from"], sweep["resume_child_runs"]), ([], []))

    def test_what_was_given_can_be_read(self):
        estimator = Estimator("src", compute_target="local", entry_script="train.py")
        over_script, over_estimator = self.config(), self.config(run_config=None, estimator=estimator)
        self.assertEqual((over_script.run_config, over_script.estimator, over_script.pipeline), (SCRIPT, None, None))
        self.assertEqual((over_estimator.estimator, over_estimator.source_directory), (estimator, "src"))

    def test_a_stored_sweep_describes_its_config(self):
        config = self.config(policy=AshaPolicy(), max_concurrent_runs=2)
        self.assertEqual(HyperDriveConfig._of_json(config._to_json())._to_json(), config._to_json())
        self.refused("which script", HyperDriveConfig._of_json(config._to_json())._to_submission, None)

    def test_each_argument_is_checked_by_its_name(self):
        for said, changes in (
                ("hyperparameter_sampling must be of the class HyperParameterS", {"hyperparameter_sampling": LR}),
                ("primary_metric_name must be a text", {"primary_metric_name": ""}),
                ("primary_metric_name must be a text", {"primary_metric_name": None}),
                ("primary_metric_goal must be of the class PrimaryMetricGoal", {"primary_metric_goal": "maximize"}),
                ("max_total_runs must be at least 1, got 0", {"max_total_runs": 0}),
                ("max_total_runs must be a whole number, got '4'", {"max_total_runs": "4"}),
                ("max_total_runs must be a whole number, got True", {"max_total_runs": True}),
                ("max_concurrent_runs must be at least 1, got 0", {"max_concurrent_runs": 0}),
                ("max_duration_minutes must be 1 to 10080, got 10081", {"max_duration_minutes": 10081}),
                ("max_duration_minutes must be 1 to 10080, got 0", {"max_duration_minutes": 0}),
                ("policy must be of the class EarlyTerminationPolicy", {"policy": "Bandit"}),
                ("custom_run_id must be a text", {"custom_run_id": 5}),
                ("resume_from must be a run or a list of runs, got 'HD_1'", {"resume_from": "HD_1"}),
                ("resume_child_runs must be a run or a list of runs", {"resume_child_runs": ["HD_1_0"]}),
                ("run_config must be of the class ScriptRunConfig", {"run_config": RunConfiguration()}),
                ("estimator must be an estimator.*run_config", {"run_config": None, "estimator": SCRIPT}),
                ("exactly one of estimator, run_config and pipeline, got none", {"run_config": None}),
                ("got estimator and run_config", {"estimator": object()})):
            self.refused(said, self.config, **changes)

    def test_a_refusal_is_every_error_that_some_version_raised(self):
        for kind in (HyperDriveConfigException, AzureMLException, UserErrorException, TrainingException, ValueError):
            with self.assertRaises(kind):
                self.config(max_total_runs=0)

    def test_a_pipeline_cannot_be_swept_yet(self):
        with self.assertRaisesRegex(NotYetException, "sweep over a pipeline"):
            self.config(run_config=None, pipeline=object())

    def test_bayesian_sampling_says_what_it_needs_and_leaves_aside(self):
        sampling = BayesianParameterSampling(LR)
        _, said = self.warned(lambda: self.config(hyperparameter_sampling=sampling, max_total_runs=20))
        self.assertEqual(said, [])
        made, said = self.warned(lambda: self.config(hyperparameter_sampling=sampling, max_total_runs=19,
                                                     policy=MedianStoppingPolicy()))
        self.assertEqual(made._to_json()["policy"]["name"], "MedianStopping")
        self.assertRegex(said[0], "max_total_runs=19 .* 20 or more")
        self.assertRegex(said[1], "no account of a policy")
        _, said = self.warned(lambda: self.config(hyperparameter_sampling=sampling, max_total_runs=40))
        self.assertRegex(said[0], "max_concurrent_runs=40 .* at most 20")

    def test_the_class_of_2018_takes_its_arguments_in_their_old_order(self):
        estimator = Estimator(".", compute_target="local", entry_script="train.py")
        made, said = self.warned(lambda: HyperDriveRunConfig(
            estimator, RandomParameterSampling(LR), "acc", MAXIMIZE, 8, 4, 60, BanditPolicy(slack_factor=0.1)))
        self.assertIsInstance(made, HyperDriveConfig)
        self.assertIs(made.estimator, estimator)
        sweep = made._to_json()
        self.assertEqual((sweep["max_total_runs"], sweep["max_concurrent_runs"], sweep["max_duration_minutes"],
                          sweep["policy"]["name"]), (8, 4, 60, "Bandit"))
        self.assertRegex(said[0], "deprecated. Use HyperDriveConfig")
        self.assertIsInstance(made, HyperDriveRunConfig)

    def test_the_class_of_2018_takes_all_that_its_successor_does(self):
        estimator = Estimator(".", compute_target="local", entry_script="train.py")
        made, _ = self.warned(lambda: HyperDriveRunConfig(
            RandomParameterSampling(LR), "acc", MAXIMIZE, 8, estimator=estimator, resume_from=None))
        self.assertIs(made.estimator, estimator)
        script = ScriptRunConfig(".", "train.py")
        made, _ = self.warned(lambda: HyperDriveRunConfig(
            run_config=script, hyperparameter_sampling=RandomParameterSampling(LR), primary_metric_name="acc",
            primary_metric_goal=MAXIMIZE, max_total_runs=8, custom_run_id="mine"))
        self.assertIs(made.run_config, script)

    def test_goals_have_the_values_of_the_original(self):
        self.assertEqual([(goal.name, goal.value) for goal in PrimaryMetricGoal],
                         [("MAXIMIZE", "MAXIMIZE"), ("MINIMIZE", "MINIMIZE")])
        for text in ("minimize", "MINIMIZE", "Minimize"):
            self.assertIs(PrimaryMetricGoal.from_str(text), PrimaryMetricGoal.MINIMIZE)
        self.refused("goal must be 'maximize' or 'minimize', got 'best'", PrimaryMetricGoal.from_str, "best")


if __name__ == "__main__":
    unittest.main()
