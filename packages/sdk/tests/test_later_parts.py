import importlib
import unittest

from azureml._unsupported import NotYetException
from azureml.opendatasets import Diabetes, NoaaIsdWeather, NycTlcGreen, NycTlcYellow


class LaterParts(unittest.TestCase):
    def test_names_can_be_imported_and_say_so_when_used(self):
        for path in ("azureml.pipeline.core.Pipeline", "azureml.pipeline.steps.PythonScriptStep",
                     "azureml.train.automl.AutoMLConfig", "azureml.pipeline.steps.HyperDriveStep"):
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


if __name__ == "__main__":
    unittest.main()
