from typing import Annotated
from uuid import uuid4

import typer

from runyard.cli.connection import connect, quoted
from runyard.cli.exits import exit_as, going_on
from runyard.cli.output import Format, FormatOption, print_json
from runyard.cli.run_logs import print_followed


def rerun(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `runyard runs list` shows it.")],
    experiment: Annotated[str, typer.Option("--experiment", "-e", help="Of the new run; else that of the old.")] = "",
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="What the new run is shown as.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print its log; exit as it does.")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Submit a run again: the same code, arguments and data, and its environment from its lock.

    The lock has the exact versions and hashes of the packages that the run had, so that what came out since, or was
    changed on the index, has no say.

    \b
    Examples:
      runyard runs rerun mnist_1700000000_1a2b3c4d
      runyard runs rerun mnist_1700000000_1a2b3c4d --follow -e mnist-again
    """
    from azureml.core._submission import new_run_id

    service = connect()
    before = service.get(f"/runs/{quoted(run)}")
    new = f"HD_{uuid4()}" if before.get("kind") == "sweep" else new_run_id(experiment or before["experiment"])
    asked = {"run_id": new, "experiment": experiment, "display_name": name}
    record = service.post_again(f"/runs/{quoted(run)}/rerun", asked)
    if follow:
        with going_on(record["id"]):
            end = print_followed(service.follow(record["id"]), output)
        exit_as(end)
    elif output is Format.JSON:
        print_json(record)
    else:
        print(record["id"])
