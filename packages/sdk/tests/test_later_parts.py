import importlib
import unittest

from azureml._not_yet import NotYetException
from azureml.opendatasets import Diabetes, NoaaIsdWeather, NycTlcGreen, NycTlcYellow
from azureml.train.hyperdrive import (
    BanditPolicy, GridParameterSampling, HyperDriveConfig, PrimaryMetricGoal, RandomParameterSampling, choice, uniform)
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException


class LaterParts(unittest.TestCase):
    def test_names_can_be_imported_and_say_so_when_used(self):
        for path in ("azureml.pipeline.core.Pipeline", "azureml.pipeline.steps.PythonScriptStep",
                     "azureml.train.automl.AutoMLConfig", "azureml.train.hyperdrive.HyperDriveRun"):
            module, _, name = path.rpartition(".")
            found = getattr(importlib.import_module(module), name)
            with self.assertRaisesRegex(NotYetException, name + " is not in this version of Runyard"):
                found()
            with self.assertRaisesRegex(NotYetException, name + ".deploy_configuration is not"):
                found.deploy_configuration(cpu_cores=1)
            self.assertFalse(isinstance(5, found))

    def test_whole_modules_that_are_not_there_are_one_clear_import_error(self):
        for name in ("azureml.datadrift", "azureml.interpret.scoring", "azureml.contrib.train.rl"):
            with self.assertRaisesRegex(ImportError, "not in this version of Runyard"):
                importlib.import_module(name)

    def test_open_data_of_many_files_says_where_it_lies(self):
        for dataset in (Diabetes, NoaaIsdWeather, NycTlcGreen, NycTlcYellow):
            for use in (dataset, dataset.get_tabular_dataset):
                with self.assertRaisesRegex(NotYetException, "register_azure_blob_container"):
                    use()

    def test_a_sweep_can_be_described_and_not_submitted(self):
        config = HyperDriveConfig(RandomParameterSampling({"--lr": uniform(0.1, 1)}), "acc", PrimaryMetricGoal.MAXIMIZE,
                                  4, policy=BanditPolicy(slack_factor=0.1), estimator=object())
        with self.assertRaisesRegex(NotYetException, "sweep"):
            config._to_submission(None)

    def test_expressions_have_the_form_of_the_original(self):
        self.assertEqual(choice(1, 2), ["choice", [[1, 2]]])
        self.assertEqual(choice([1, 2]), choice(1, 2))
        self.assertEqual(uniform(0, 1), ["uniform", [0, 1]])

    def test_impossible_settings_are_refused(self):
        for make in (lambda: uniform(1, 0), lambda: choice(), lambda: BanditPolicy(), lambda: BanditPolicy(
                slack_factor=1, slack_amount=1), lambda: GridParameterSampling({"a": uniform(0, 1)})):
            with self.assertRaises(HyperDriveConfigException):
                make()


if __name__ == "__main__":
    unittest.main()
