"""Submit train.py to a cluster of this workspace, with MNIST mounted from the web."""

from pathlib import Path

from azureml.core import Dataset, Experiment, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.compute_target import ComputeTargetException
from azureml.train.dnn import PyTorch

MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"
FILES = [
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
]

workspace = Workspace.from_config()
try:
    cluster = ComputeTarget(workspace=workspace, name="cpu-cluster")
except ComputeTargetException:
    configuration = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", max_nodes=2)
    cluster = ComputeTarget.create(workspace, "cpu-cluster", configuration)
    cluster.wait_for_completion(show_output=True)

mnist = Dataset.File.from_files(path=[MNIST + name for name in FILES])
estimator = PyTorch(
    source_directory=str(Path(__file__).parent),
    entry_script="train.py",
    script_params={"--data-folder": mnist.as_named_input("mnist").as_mount(), "--epochs": 2},
    compute_target=cluster,
    framework_version="2.13",
)
run = Experiment(workspace, "pytorch-mnist").submit(estimator)
run.wait_for_completion(show_output=True)

print("Metrics:", run.get_metrics())
model = run.register_model(model_name="pytorch-mnist", model_path="outputs/model.pt")
print("Registered", model.name, "version", model.version)
