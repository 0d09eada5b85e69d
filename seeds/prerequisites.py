"""What a page expects to have been made before it: used by the errata."""

import urllib.request
from pathlib import Path
from typing import Any

from azureml.core import Experiment, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget

MNIST = "https://azureopendatastorage.blob.core.windows.net/mnist/"
FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def datastore() -> Any:
    """The workspace's default datastore, with MNIST in its folder `mnist`."""
    store = Workspace.from_config().get_default_datastore()
    folder = Path("mnist")
    folder.mkdir(exist_ok=True)
    for name in FILES:
        urllib.request.urlretrieve(MNIST + name, folder / name)
    store.upload(src_dir=str(folder), target_path="mnist", overwrite=True, show_progress=False)
    return store


def compute_target() -> Any:
    """A cluster of up to four nodes, made on first use."""
    workspace = Workspace.from_config()
    if "cluster" in workspace.compute_targets:
        return workspace.compute_targets["cluster"]
    configuration = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", max_nodes=4)
    target = ComputeTarget.create(workspace, "cluster", configuration)
    target.wait_for_completion()
    return target


def experiment() -> Any:
    return Experiment(Workspace.from_config(), "estimators")
