"""Submit chainer_mnist.py to this machine; the script downloads MNIST by itself."""

from pathlib import Path

from azureml.core import Experiment, Workspace
from azureml.train.dnn import Chainer

workspace = Workspace.from_config()
estimator = Chainer(
    source_directory=str(Path(__file__).parent),
    entry_script="chainer_mnist.py",
    script_params={"--epochs": 10, "--batchsize": 128, "--output_dir": "./outputs"},
    compute_target="local",
)
run = Experiment(workspace, "chainer-mnist").submit(estimator)
run.wait_for_completion(show_output=True)

print("Metrics:", run.get_metrics())
model = run.register_model(model_name="chainer-mnist", model_path="outputs/model.npz")
print("Registered", model.name, "version", model.version)
