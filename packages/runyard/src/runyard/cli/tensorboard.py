import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from runyard.cli.connection import home
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.run_folders import environments_root
from runyard.environments.uv_environments import UvEnvironments

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


def tensorboard(
    logdir: Annotated[Path, typer.Option(file_okay=False, exists=True, help="Folder with event files.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0 takes a free one.")] = 6006,
) -> None:
    """Run TensorBoard in the foreground, from an environment of its own, without TensorFlow.

    Example: runyard tensorboard --logdir ./logs
    """
    command = tensorboard_command(home(), dict(os.environ), lambda line: typer.echo(line, err=True))
    arguments = [*command, "--logdir", str(logdir), "--host", "127.0.0.1", "--port", str(port)]
    os.execv(arguments[0], arguments)
