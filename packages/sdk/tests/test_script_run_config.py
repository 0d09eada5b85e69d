import os
import tempfile
import unittest
import warnings

from azureml.core import Environment, RunConfiguration, ScriptRunConfig
from azureml.core.runconfig import (
    Data, DockerConfiguration, MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration)
from azureml.data.azure_storage_datastore import AzureBlobDatastore
from azureml.data.dataset_factory import FileDatasetFactory
from azureml.exceptions import ExperimentExecutionException, UserErrorException


class Definitions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(os.path.join(self.folder, "sub"))
        with open(os.path.join(self.folder, "sub", "train.py"), "w") as file:
            file.write("print(1)\n")

    def definition(self, *args, **kwargs):
        return ScriptRunConfig(self.folder, *args, **kwargs)._to_submission(None)["definition"]

    def test_arguments_are_words(self):
        made = self.definition("sub/train.py", ["--a", 1, "--b", True, 0.5])
        self.assertEqual((made["script"], made["arguments"]), ("sub/train.py", ["--a", "1", "--b", "True", "0.5"]))

    def test_a_command_stands_in_place_of_a_script(self):
        store = AzureBlobDatastore(None, "store", "c", "a")
        made = self.definition(command=["python", "sub/train.py", "--d", store.as_mount()])
        self.assertEqual((made["script"], made["command"]),
                         (None, "python sub/train.py --d $AZUREML_DATAREFERENCE_store"))
        self.assertEqual(list(made["dataReferences"]), ["store"])
        self.assertEqual(self.definition(command="echo $HOME")["command"], "echo $HOME")

    def test_the_defaults_of_the_original(self):
        made = self.definition("sub/train.py")
        self.assertEqual((made["target"], made["environment"]["name"], made["maxRunDurationSeconds"]),
                         ("local", "default-environment", 2592000))

    def test_an_environment_is_no_name(self):
        for given, said in (("AzureML-Minimal", "got the name 'AzureML-Minimal'"),
                            (5, "must be an Environment, got 5")):
            with self.assertRaisesRegex(UserErrorException, said):
                ScriptRunConfig(self.folder, "sub/train.py", environment=given)

    def test_how_its_container_runs_is_told_beside_the_environment(self):
        use = DockerConfiguration(use_docker=True, arguments=["--memory", "1g"], shm_size="3g")
        made = self.definition("sub/train.py", environment=Environment("e"), docker_runtime_config=use)
        self.assertEqual(made["docker"], {"useDocker": True, "sharedVolumes": True, "arguments": ["--memory", "1g"],
                                          "shmSize": "3g"})

    def test_a_distribution_sets_nodes_and_communicator(self):
        for job, expected in ((MpiConfiguration(2, 3), ("IntelMpi", "Python", 3)),
                              (TensorflowConfiguration(2, 1), ("ParameterServer", "TensorFlow", 2)),
                              (PyTorchConfiguration("Gloo", 4, 2), ("Gloo", "PyTorch", 2))):
            made = self.definition("sub/train.py", distributed_job_config=job)
            self.assertEqual((made["communicator"], made["framework"], made["nodeCount"]), expected)

    def test_variables_of_the_run_configuration_win(self):
        run_config = RunConfiguration()
        run_config.environment = Environment("e")
        run_config.environment.environment_variables = {"A": 1, "B": 2}
        run_config.environment_variables = {"B": 3}
        made = self.definition("sub/train.py", run_config=run_config)
        self.assertEqual(made["environment"]["environmentVariables"], {"A": "1", "B": "3"})

    def test_a_run_config_makes_other_settings_of_no_account(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            made = ScriptRunConfig(self.folder, "sub/train.py", run_config=RunConfiguration(), compute_target="c")
        self.assertEqual((made.run_config.target, len(seen)), ("local", 1))

    def test_references_put_in_by_hand_are_sent(self):
        run_config = RunConfiguration()
        reference = AzureBlobDatastore(None, "store", "c", "a").path("x", "r")
        run_config.data_references = {"r": reference.to_config()}
        made = self.definition("sub/train.py", run_config=run_config)
        self.assertEqual(made["dataReferences"]["r"], {
            "dataStoreName": "store", "mode": "Mount", "pathOnDataStore": "x", "pathOnCompute": None,
            "overwrite": False})

    def test_bare_data_is_no_argument(self):
        for value in (FileDatasetFactory.from_files("http://host/a", validate=False), Data()):
            with self.assertRaisesRegex(UserErrorException, "as_named_input"):
                self.definition("sub/train.py", ["--d", value])

    def test_wrong_arguments_are_refused(self):
        with self.assertRaisesRegex(UserErrorException, "arguments must be a list"):
            self.definition("sub/train.py", "--a 1")
        with self.assertRaisesRegex(UserErrorException, "command excludes"):
            self.definition("sub/train.py", command="x")
        for script, said in (("../x.py", "outside"), ("a\0b", "outside"), ("absent.py", "no script"), ("sub", "no script")):
            with self.assertRaisesRegex(ExperimentExecutionException, said) as raised:
                self.definition(script)
            self.assertIn('"UserError"', raised.exception._serialize_json())
        with self.assertRaisesRegex(ExperimentExecutionException, "not a folder"):
            ScriptRunConfig("/does/not/exist", "x.py")._to_submission(None)


if __name__ == "__main__":
    unittest.main()
