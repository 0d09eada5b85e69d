from collections.abc import Callable, Mapping
from pathlib import Path

from runyard.environments.uv import UvEnvironments
from runyard.model.plan import EnvironmentSpec
from runyard.run_folders import environments_root

# Without TensorFlow installed it starts much faster, and still reads the logs of every framework.
TENSORBOARD = EnvironmentSpec(
    python="3.11,3.12,3.13,3.10",
    exact_python=True,
    requirements=("tensorboard", "setuptools<81"),
    build_constraints=("setuptools<81",),
)


def tensorboard_python(home: Path, variables: Mapping[str, str], log: Callable[[str], None]) -> Path:
    """Interpreter of the TensorBoard environment of this home; built on first use."""
    return UvEnvironments(environments_root(home), variables).ensure(TENSORBOARD, log).python


def tensorboard_command(home: Path, variables: Mapping[str, str], log: Callable[[str], None]) -> list[str]:
    """Command that starts TensorBoard; append its arguments."""
    return [str(tensorboard_python(home, variables, log)), "-m", "tensorboard.main"]
