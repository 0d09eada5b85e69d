import os
from pathlib import Path
from typing import Annotated

import typer

from runyard.cli.connection import home


def tensorboard(
    logdir: Annotated[Path, typer.Option(file_okay=False, exists=True, help="Folder with event files.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0 takes a free one.")] = 6006,
) -> None:
    """Run TensorBoard in the foreground, from an environment of its own, without TensorFlow.

    Example: runyard tensorboard --logdir ./logs
    """
    from runyard.environments.tensorboard import tensorboard_command

    command = tensorboard_command(home(), dict(os.environ), lambda line: typer.echo(line, err=True))
    arguments = [*command, "--logdir", str(logdir), "--host", "127.0.0.1", "--port", str(port)]
    os.execv(arguments[0], arguments)
