from collections.abc import Callable, Mapping
from pathlib import Path

from runyard.environments.uv import UvEnvironments
from runyard.model.plan import EnvironmentSpec
from runyard.run_folders import environments_root

# Without TensorFlow beside it, it starts in a second instead of many and reads the logs of every framework.
TENSORBOARD = EnvironmentSpec(
    python="3.11,3.12,3.13,3.10",
    exact_python=True,
    requirements=("tensorboard", "setuptools<81"),
    build_constraints=("setuptools<81",),
)


def tensorboard_python(home: Path, variables: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The interpreter of the one TensorBoard environment of this home; made on first use."""
    return UvEnvironments(environments_root(home), variables).ensure(TENSORBOARD, say).python


def tensorboard_command(home: Path, variables: Mapping[str, str], say: Callable[[str], None]) -> list[str]:
    """What to start TensorBoard with; its own arguments follow."""
    return [str(tensorboard_python(home, variables, say)), "-m", "tensorboard.main"]
