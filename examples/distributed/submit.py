"""Train on two nodes: `submit.py NAME`, with NAME one of those below. On a laptop the nodes are slots of it."""

import sys
from pathlib import Path

from azureml.core import Dataset, Experiment, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.compute_target import ComputeTargetException
from azureml.core.runconfig import MpiConfiguration, TensorflowConfiguration
from azureml.train.dnn import Chainer, Gloo, PyTorch, TensorFlow
from azureml.train.estimator import Estimator

MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"
FILES = [
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
]
SERVERS = TensorflowConfiguration(worker_count=2, parameter_server_count=1)

# What each example adds to the settings that all have.
EXAMPLES = {
    "horovod_tf1": (TensorFlow, {"framework_version": "1.13", "distributed_training": MpiConfiguration()}),
    "parameter_server_tf1": (TensorFlow, {"framework_version": "1.13", "distributed_training": SERVERS}),
    "parameter_server_tf2": (TensorFlow, {"framework_version": "2.21", "distributed_training": SERVERS}),
    "ddp_torch": (PyTorch, {"framework_version": "2.13", "distributed_training": Gloo()}),
    "chainermn_mnist": (Chainer, {"framework_version": "7.8.1", "distributed_training": MpiConfiguration()}),
    "cntk_mpi": (Estimator, {"pip_packages": ["cntk==2.5.1"], "distributed_training": MpiConfiguration()}),
}

if len(sys.argv) != 2 or sys.argv[1] not in EXAMPLES:
    sys.exit("Usage: submit.py NAME. NAME is one of: " + ", ".join(EXAMPLES))
name = sys.argv[1]
workspace = Workspace.from_config()
try:
    cluster = ComputeTarget(workspace=workspace, name="cpu-cluster")
except ComputeTargetException:
    configuration = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", max_nodes=2)
    cluster = ComputeTarget.create(workspace, "cpu-cluster", configuration)
    cluster.wait_for_completion(show_output=True)

mnist = Dataset.File.from_files(path=[MNIST + file for file in FILES])
estimator_class, settings = EXAMPLES[name]
estimator = estimator_class(
    source_directory=str(Path(__file__).parent),
    entry_script=name + ".py",
    script_params={"--data-folder": mnist.as_named_input("mnist").as_mount()},
    compute_target=cluster,
    node_count=2,
    environment_variables={"OMP_NUM_THREADS": "1"},  # nodes of one machine share its cores
    **settings,
)
run = Experiment(workspace, name.replace("_", "-")).submit(estimator)
run.wait_for_completion(show_output=True)

print("Metrics:", run.get_metrics())
model = run.register_model(model_name=name, model_path="outputs")
print("Registered", model.name, "version", model.version)
