import os
import tempfile
import unittest

from azureml.core import RunConfiguration, ScriptRunConfig
from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration
from azureml.exceptions import RunConfigurationException, TrainingException, UserErrorException
from azureml.train.dnn import Chainer, Gloo, Mpi, ParameterServer, PyTorch, TensorFlow
from azureml.train.estimator import Estimator
from runyard_sdk.recorder import InRunRecorder

IMPOSSIBLE = (0, -1, "2", 1.5, None, True)


class WithAScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(self.folder, "train.py"), "w") as file:
            file.write("print(1)\n")

    def estimator(self, kind=Estimator, **settings):
        return kind(self.folder, **dict({"compute_target": "c", "entry_script": "train.py"}, **settings))

    def config(self, **settings):
        return ScriptRunConfig(self.folder, "train.py", **settings)


class CountsThatCannotBe(WithAScript):
    def refused(self, argument, error, make):
        with self.assertRaisesRegex(error, "^[\\s\\S]*%s must be a whole number of at least" % argument):
            make()

    def test_arguments_of_an_estimator_are_named(self):
        for count in IMPOSSIBLE:
            for argument in ("node_count", "process_count_per_node", "worker_count"):
                self.refused(argument, TrainingException, lambda argument=argument, count=count: self.estimator(
                    TensorFlow, distributed_backend="mpi", **{argument: count}))

    def test_objects_of_an_estimator_are_looked_into(self):
        for count in IMPOSSIBLE:
            for argument, kind, job in (
                    ("process_count_per_node", Chainer, Mpi(count)),
                    ("process_count_per_node", PyTorch, MpiConfiguration(count)),
                    ("worker_count", TensorFlow, ParameterServer(count)),
                    ("worker_count", TensorFlow, TensorflowConfiguration(count))):
                self.refused(argument, TrainingException, lambda kind=kind, job=job: self.estimator(
                    kind, node_count=2, distributed_training=job))

    def test_a_job_of_a_script_run_is_looked_into(self):
        for count in IMPOSSIBLE:
            jobs = [("process_count_per_node", MpiConfiguration(count)), ("node_count", MpiConfiguration(1, count)),
                    ("worker_count", TensorflowConfiguration(count)), ("node_count", PyTorchConfiguration("Gloo", 2, count))]
            if count is not None:  # of a PyTorch job it means one process a node
                jobs.append(("process_count", PyTorchConfiguration("Gloo", count)))
            for argument, job in jobs:
                self.refused(argument, UserErrorException, lambda job=job: self.config(distributed_job_config=job))

    def test_what_was_changed_after_construction_is_found_at_submit(self):
        config = self.config(distributed_job_config=MpiConfiguration(2, 2))
        config.run_config.mpi.process_count_per_node = 0
        self.refused("process_count_per_node", UserErrorException, lambda: config._to_submission(None))
        estimator = self.estimator(TensorFlow, node_count=2, distributed_training=TensorflowConfiguration())
        estimator.run_config.node_count = -1
        self.refused("node_count", UserErrorException, lambda: estimator._to_submission(None))

    def test_no_parameter_server_at_all_is_a_way_to_train(self):
        config = self.config(distributed_job_config=TensorflowConfiguration(2, 0))
        self.assertEqual(config._to_submission(None)["definition"]["tensorflow"],
                         {"workerCount": 2, "parameterServerCount": 0})
        self.refused("parameter_server_count", UserErrorException, lambda: self.config(
            distributed_job_config=TensorflowConfiguration(2, -1)))

    def test_an_unknown_torch_backend_is_refused(self):
        with self.assertRaisesRegex(RunConfigurationException, "communication_backend must be 'Nccl' or 'Gloo'"):
            PyTorchConfiguration("mpi")


class OneCountInTwoPlaces(WithAScript):
    def test_the_place_that_names_one_counts(self):
        by_object = self.estimator(distributed_training=Mpi(4), node_count=2)
        by_argument = self.estimator(distributed_training=Mpi(), node_count=2, process_count_per_node=4)
        for made in (by_object, by_argument):
            self.assertEqual(made.run_config.mpi.process_count_per_node, 4)
        nodes = self.estimator(distributed_training=MpiConfiguration(node_count=3)).run_config
        self.assertEqual((nodes.node_count, nodes.amlcompute._cluster_max_node_count), (3, 3))

    def test_two_that_differ_are_refused(self):
        with self.assertRaisesRegex(TrainingException, "process_count_per_node=2 and Mpi.*=4"):
            self.estimator(distributed_training=Mpi(4), process_count_per_node=2)
        with self.assertRaisesRegex(TrainingException, "worker_count=3 and TensorflowConfiguration.*=2"):
            self.estimator(TensorFlow, distributed_training=TensorflowConfiguration(2), worker_count=3)

    def test_the_older_arguments_of_tensorflow_count_tasks(self):
        tensorflow = self.estimator(TensorFlow, node_count=2, distributed_backend="ps", worker_count=2,
                                    parameter_server_count=1).run_config.tensorflow
        self.assertEqual((tensorflow.worker_count, tensorflow.parameter_server_count), (2, 1))


class RunDefinitions(WithAScript):
    def test_all_three_sections_are_shown(self):
        made = self.config(distributed_job_config=PyTorchConfiguration("Gloo", 4, 2))._to_submission(None)["definition"]
        self.assertEqual(made["pyTorch"], {"communicationBackend": "Gloo", "processCount": 4, "nodeCount": 2})
        self.assertEqual(made["mpi"], {"processCountPerNode": 1, "nodeCount": 1})
        self.assertEqual(made["tensorflow"], {"workerCount": 1, "parameterServerCount": 1})

    def test_a_saved_run_configuration_comes_back_whole(self):
        for job in (MpiConfiguration(2, 3), TensorflowConfiguration(4, 2), PyTorchConfiguration("Gloo", 6, 3)):
            before = self.config(distributed_job_config=job).run_config
            before.save(self.folder, "spread")
            after = RunConfiguration.load(self.folder, "spread")
            for field in ("communicator", "framework", "node_count"):
                self.assertEqual(getattr(after, field), getattr(before, field))
            for section in ("mpi", "tensorflow", "pytorch"):
                self.assertEqual(vars(getattr(after, section)), vars(getattr(before, section)))

    def test_the_torch_estimator_sets_what_nccl_needs(self):
        made = self.estimator(PyTorch, node_count=2, distributed_training=Gloo(), environment_variables={"A": "b"})
        self.assertEqual(made.run_config.environment.environment_variables, {"A": "b", "NCCL_TREE_THRESHOLD": "0"})


class RanksInJournals(unittest.TestCase):
    def rank_of(self, **variables):
        with tempfile.TemporaryDirectory() as folder:
            recorder = InRunRecorder("run", dict({"RUNYARD_JOURNALS": folder, "RUNYARD_UPLOADS": folder}, **variables))
            recorder.journal.scalar("loss", 1.0)
            name, = os.listdir(folder)
        return name.split("~")[1].split("-")[0]

    def test_a_journal_has_the_rank_in_its_name(self):
        self.assertEqual(self.rank_of(RUNYARD_RANK="3", OMPI_COMM_WORLD_RANK="5"), "3")
        self.assertEqual(self.rank_of(OMPI_COMM_WORLD_RANK="5"), "5")
        self.assertEqual(self.rank_of(), "0")
        self.assertEqual(self.rank_of(RUNYARD_RANK="../7"), "0")


if __name__ == "__main__":
    unittest.main()
