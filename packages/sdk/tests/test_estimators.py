import os
import tempfile
import unittest
import warnings

from azureml.core import ContainerRegistry, Environment
from azureml.core.runconfig import MpiConfiguration, TensorflowConfiguration
from azureml.data.azure_storage_datastore import AzureBlobDatastore
from azureml.data.datapath import DataPath
from azureml.exceptions import TrainingException, UserErrorException
from azureml.train.dnn import Chainer, Gloo, Mpi, Nccl, ParameterServer, PyTorch, TensorFlow
from azureml.train.estimator import Estimator
from azureml.train.sklearn import SKLearn


class WithASource(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(self.folder, "train.py"), "w") as file:
            file.write("print(1)\n")

    def made(self, kind=Estimator, **settings):
        return kind(self.folder, **dict({"compute_target": "c", "entry_script": "train.py"}, **settings))

    def refused(self, said, error=TrainingException, kind=Estimator, **settings):
        with self.assertRaisesRegex(error, said):
            self.made(kind, **settings)


class Arguments(WithASource):
    def test_script_params_become_words_in_their_order(self):
        params = {"--a": 1, "--flag": "", "--none": None, "--zero": 0, "--no": False, "--space": " ", "--l": [1, "x"],
                  "positional": "p"}
        self.assertEqual(self.made(script_params=params).run_config.arguments, [
            "--a", "1", "--flag", "--none", "--zero", "0", "--no", "False", "--space", " ", "--l", "1", "x",
            "positional", "p"])

    def test_a_datastore_or_reference_becomes_its_placeholder(self):
        store = AzureBlobDatastore(None, "store", "c", "a")
        made = self.made(script_params={"--d": store, "--e": store.path("x", "e").as_download()})
        self.assertEqual(made.run_config.arguments,
                         ["--d", "$AZUREML_DATAREFERENCE_store", "--e", "$AZUREML_DATAREFERENCE_e"])
        references = made._to_submission(None)["definition"]["dataReferences"]
        self.assertEqual({name: one["mode"] for name, one in references.items()}, {"store": "Mount", "e": "Download"})

    def test_resume_from_is_a_data_path(self):
        path = DataPath(AzureBlobDatastore(None, "store", "c", "a"), "models")
        made = self.made(script_params={"--a": 1}, resume_from=path)
        self.assertEqual(made.run_config.arguments[2:], ["--resume-from", "$AZUREML_DATAREFERENCE_MODEL_LOCATION"])
        self.refused("resume_from must be a DataPath", UserErrorException, resume_from="x")

    def test_submit_changes_the_parameters_for_that_submit_alone(self):
        made = self.made(script_params={"--a": 1})
        changed = made._to_submission(None, script_params={"--b": 2})
        self.assertEqual(changed["definition"]["arguments"], ["--b", "2"])
        self.assertEqual(made._to_submission(None)["definition"]["arguments"], ["--a", "1"])
        with self.assertRaisesRegex(TrainingException, "node_count"):
            made._to_submission(None, node_count=2)


class Distribution(WithASource):
    def test_each_way_gives_the_communicator_of_the_original(self):
        ways = [(TensorFlow, {"distributed_backend": "mpi"}, "IntelMpi", "Python"),
                (TensorFlow, {"distributed_training": MpiConfiguration()}, "IntelMpi", "Python"),
                (TensorFlow, {"distributed_training": Mpi()}, "Mpi", "python"),
                (TensorFlow, {"distributed_backend": "ps"}, "ParameterServer", "TensorFlow"),
                (TensorFlow, {"distributed_training": TensorflowConfiguration()}, "ParameterServer", "TensorFlow"),
                (PyTorch, {"distributed_backend": "nccl"}, "nccl", "PyTorch"),
                (PyTorch, {"distributed_training": Nccl()}, "Nccl", "pytorch"),
                (PyTorch, {"distributed_training": Gloo()}, "Gloo", "pytorch"),
                (Chainer, {"distributed_backend": "mpi"}, "IntelMpi", "Python"),
                (Estimator, {"distributed_training": ParameterServer()}, "ParameterServer", "tensorflow")]
        for kind, settings, communicator, framework in ways:
            run_config = self.made(kind, node_count=2, **settings).run_config
            self.assertEqual((run_config.communicator, run_config.framework, run_config.node_count),
                             (communicator, framework, 2))

    def test_the_parameter_server_example_of_the_docs_is_three_tasks(self):
        distribution = TensorflowConfiguration()
        distribution.worker_count = 2
        tensorflow = self.made(TensorFlow, node_count=2, distributed_training=distribution).run_config.tensorflow
        self.assertEqual((tensorflow.worker_count, tensorflow.parameter_server_count), (2, 1))

    def test_processes_per_node_reach_mpi(self):
        mpi = self.made(distributed_training=Mpi(process_count_per_node=4), node_count=2).run_config.mpi
        self.assertEqual(mpi.process_count_per_node, 4)

    def test_wrong_distributions_are_refused(self):
        self.refused("node_count=2 needs distributed_training", node_count=2)
        self.refused("process_count_per_node=2 needs", process_count_per_node=2)
        self.refused("node_count must be", node_count=0)
        self.refused("Chainer cannot be distributed with 'ps'", kind=Chainer, distributed_backend="ps")
        self.refused("PyTorch cannot be distributed with 'ParameterServer'", kind=PyTorch,
                     distributed_training=ParameterServer())
        self.refused("needs a cluster", compute_target="local", node_count=2, distributed_backend="mpi")
        self.refused("give one of them", distributed_backend="mpi", distributed_training=Mpi())

    def test_sklearn_takes_neither_nodes_nor_a_gpu(self):
        for name in ("node_count", "use_gpu", "distributed_backend"):
            self.refused(name, TypeError, SKLearn, **{name: 1})


class Environments(WithASource):
    def test_settings_that_exclude_one_another(self):
        self.refused("environment_definition", environment_definition=Environment("e"), pip_packages=["a"])
        self.refused("environment_definition", environment_definition=Environment("e"), use_gpu=True)
        self.refused("conda_dependencies_file", conda_dependencies_file="c.yml", conda_packages=["a"])
        self.refused("use_docker=False", use_docker=False, custom_docker_image="i")
        self.refused("user_managed", UserErrorException, user_managed=True, pip_packages=["a"])
        self.refused("custom_docker_base_image is the old name", custom_docker_base_image="a", custom_docker_image="b")
        self.refused("there is no file 'absent.txt'", UserErrorException, pip_requirements_file="absent.txt")
        self.refused("compute_target is missing", compute_target=None)

    def test_what_is_no_environment_or_registry_is_refused(self):
        self.refused(r"Environment.get\(workspace, 'AzureML-Minimal'\)", UserErrorException,
                     environment_definition="AzureML-Minimal")
        self.refused("image_registry_details must be a ContainerRegistry", image_registry_details={"address": "a"})

    def test_an_image_comes_with_its_registry_and_shared_memory(self):
        registry = ContainerRegistry()
        registry.address, registry.username, registry.password = "registry.example", "me", "secret"
        made = self.made(custom_docker_image="team/image:1", image_registry_details=registry, shm_size="1g",
                         user_managed=True)
        docker = made._to_submission(None)["definition"]["environment"]["docker"]
        self.assertEqual((docker["enabled"], docker["baseImage"], docker["shmSize"]), (True, "team/image:1", "1g"))
        self.assertEqual(docker["baseImageRegistry"], {"address": "registry.example", "username": "me",
                                                       "password": "secret", "registryIdentity": None})

    def test_the_old_name_of_the_image_still_works(self):
        self.assertEqual(self.made(custom_docker_base_image="i").run_config.environment.docker.base_image, "i")

    def test_a_vm_size_alone_means_a_cluster_of_this_run(self):
        run_config = self.made(compute_target=None, vm_size="STANDARD_D2").run_config
        self.assertEqual((run_config.target, run_config.amlcompute.vm_size), ("amlcompute", "STANDARD_D2"))

    def test_framework_packages_are_shown_and_left_to_the_service(self):
        made = self.made(TensorFlow, pip_packages=["numpy"])
        self.assertIn("tensorflow==1.13.1", list(made.conda_dependencies.pip_packages))
        definition = made._to_submission(None)["definition"]
        self.assertEqual(definition["environment"]["python"]["condaDependencies"]["dependencies"][-1],
                         {"pip": ["azureml-defaults", "numpy"]})
        self.assertEqual(definition["runyard"]["estimator"],
                         {"framework": "TensorFlow", "version": "1.13", "use_gpu": False})

    def test_a_users_package_replaces_the_one_of_the_framework_with_a_warning(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            made = self.made(TensorFlow, pip_packages=["tensorflow==1.12.0"])
        self.assertIn("replaces 'tensorflow==1.13.1'", str(seen[0].message))
        self.assertIn("tensorflow==1.12.0", str(made._to_submission(None)["definition"]["environment"]))

    def test_a_conda_file_stands_alone(self):
        with open(os.path.join(self.folder, "c.yml"), "w") as file:
            file.write("dependencies:\n- python=3.7\n- pip:\n  - torch==1.0\n")
        made = self.made(PyTorch, conda_dependencies_file="c.yml")
        self.assertEqual(list(made.conda_dependencies.pip_packages), ["torch==1.0"])
        self.assertIsNone(made._to_submission(None)["definition"]["runyard"]["estimator"]["framework"])

    def test_a_version_is_meant_for_the_unpinned_package_of_an_own_environment(self):
        named = self.made(TensorFlow, framework_version="1.13", environment_definition=Environment("own"))
        facts = named._to_submission(None)["definition"]["runyard"]["estimator"]
        self.assertEqual((facts["unpinned"], facts["version"], facts["version_is_default"]),
                         ("TensorFlow", "1.13", False))
        unnamed = self.made(TensorFlow, environment_definition=Environment("own"))
        facts = unnamed._to_submission(None)["definition"]["runyard"]["estimator"]
        self.assertEqual((facts["unpinned"], facts["version"], facts["version_is_default"]),
                         ("TensorFlow", "1.13", True))

    def test_both_kinds_of_pip_packages_are_merged(self):
        with open(os.path.join(self.folder, "r.txt"), "w") as file:
            file.write("a\nb==1\n")
        made = self.made(pip_requirements_file="r.txt", pip_packages=["b==2"])
        self.assertEqual(list(made.conda_dependencies.pip_packages), ["azureml-defaults", "a", "b==2"])

    def test_every_framework_asks_for_python_3_6_2(self):
        for kind in (Estimator, TensorFlow, PyTorch, Chainer, SKLearn):
            self.assertEqual(self.made(kind).conda_dependencies.get_python_version(), "3.6.2")


class FrameworkVersions(WithASource):
    def test_the_defaults_and_lists_of_the_original(self):
        self.assertEqual([(kind.FRAMEWORK_NAME, kind.DEFAULT_VERSION, kind.get_supported_versions()[0])
                          for kind in (TensorFlow, PyTorch, Chainer, SKLearn)],
                         [("TensorFlow", "1.13", "1.10"), ("PyTorch", "1.4", "1.0"), ("Chainer", "5.1.0", "5.1.0"),
                          ("SKLearn", "0.20.3", "0.20.3")])

    def test_a_well_formed_newer_version_is_left_to_the_service(self):
        self.assertEqual(self.made(TensorFlow, framework_version="2.99").framework_version, "2.99")

    def test_nonsense_is_refused(self):
        for version in ("latest", "1", "1.x", "1.13\n", "", 1.13, "1.2.3.4"):
            self.refused("framework_version must look like '1.13'", kind=TensorFlow, framework_version=version)


class Submission(WithASource):
    def test_a_missing_script_is_found_at_submit(self):
        made = self.made(entry_script="absent.py")
        with self.assertRaisesRegex(TrainingException, "no script 'absent.py'"):
            made._to_submission(None)

    def test_a_script_outside_of_the_folder_is_refused(self):
        for script in ("../train.py", os.path.abspath(__file__), "a/../../x.py"):
            with self.assertRaisesRegex(TrainingException, "outside of source_directory"):
                self.made(entry_script=script)._to_submission(None)

    def test_only_the_source_directory_is_positional(self):
        with self.assertRaises(TypeError):
            Estimator(self.folder, "c")


if __name__ == "__main__":
    unittest.main()
