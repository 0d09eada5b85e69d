"""The application `runyard`: a table of all commands, whose modules are imported when they are called."""

import sys
from typing import Annotated, NoReturn

import typer

from runyard.cli.connection import ServiceError, Unreachable
from runyard.cli.exits import BY_ERROR_CODE, CommandError, Exit
from runyard.cli.lazy_group import LazyCommand, lazy_group
from runyard.core.errors import RunyardError
from runyard.core.version import API, VERSION

HELP = """Train and serve models on this machine with code written for the Azure ML SDK v1.

The SDK starts the service by itself; these commands look into what it did:

\b
  runyard runs list                newest runs first
  runyard runs logs -f RUN         follow one; exits as the run does
  runyard runs logs -f --all RUN   every rank of a distributed one
  runyard runs show RUN -o json    for scripts; every command has -o json
  runyard sweeps show SWEEP        hyperparameter tuning: the best so far
  runyard deploy MODEL             a registered model as a web service
  runyard services test NAME       ask it once
  runyard logs -f                  what the service itself does
  runyard doctor                   what this machine has and lacks

Exit codes: 0 ok, 1 the answer is no (a failed run), 2 wrong usage, 3 not found, 4 no service."""


COMMANDS = {
    "up": LazyCommand("runyard.cli.service:up", "Start the service and keep it, until `runyard down`."),
    "down": LazyCommand(
        "runyard.cli.service:down",
        "Stop the service. Runs go on; what they log is delivered when the service is back.",
    ),
    "status": LazyCommand(
        "runyard.cli.service:status",
        "Tell whether the service runs, and where. Exit code 4 when it does not.",
    ),
    "serve": LazyCommand("runyard.cli.serve:serve", "Run the service in the foreground."),
    "logs": LazyCommand(
        "runyard.cli.process_logs:logs",
        "Print the logs of the service, the agent and the gateway of this home, by time.",
    ),
    "deploy": LazyCommand(
        "runyard.cli.web_services.deploy:deploy",
        "Deploy a registered model as a web service of this machine.",
    ),
    "du": LazyCommand("runyard.cli.service:du", "Show what the home folder's parts take on disk."),
    "gc": LazyCommand(
        "runyard.cli.service:gc",
        "Free disk: blobs nothing refers to, work folders of ended runs, environments and fetched data "
        "not used lately.",
    ),
    "doctor": LazyCommand(
        "runyard.cli.doctor:doctor",
        "Tell what this machine has and lacks. Exit code 1 when runs cannot work here.",
    ),
    "tensorboard": LazyCommand(
        "runyard.cli.tensorboard:tensorboard",
        "Run TensorBoard in the foreground, from an environment of its own, without TensorFlow.",
    ),
    "backup": LazyCommand(
        "runyard.cli.backups:backup",
        "Add a backup of this machine's home to a folder. The service may run and be used meanwhile.",
    ),
    "restore": LazyCommand(
        "runyard.cli.backups:restore",
        "Bring this machine's home back from a backup alone. The service must not run.",
    ),
    "check": LazyCommand(
        "runyard.cli.backups:check",
        "Look for damage in this machine's home: the database, the hash of every file, and what belongs to nobody.",
    ),
    "runs": LazyCommand("runyard.cli.runs:app", "Runs: list them, look into one, follow it, stop it."),
    "sweeps": LazyCommand(
        "runyard.cli.sweeps.commands:app",
        "Sweeps: hyperparameter tuning with HyperDrive, looked into.",
    ),
    "experiments": LazyCommand("runyard.cli.assets:experiments", "Experiments of a workspace."),
    "models": LazyCommand("runyard.cli.assets:models", "Registered models."),
    "services": LazyCommand(
        "runyard.cli.web_services.commands:app",
        "Web services: models that answer over HTTP. `runyard deploy` makes one.",
    ),
    "compute": LazyCommand("runyard.cli.compute:app", "Compute targets and their nodes."),
    "data": LazyCommand("runyard.cli.data:app", "Datasets: what they hold, who read them, their files."),
    "datastores": LazyCommand("runyard.cli.datastores:app", "Datastores: the places a workspace's data lies in."),
    "environments": LazyCommand(
        "runyard.cli.environments.commands:app",
        "Environments: what is built, building one, where packages come from.",
    ),
    "metrics": LazyCommand("runyard.cli.service:metrics_app", "Figures for Prometheus."),
}
"""In the order of `runyard --help`."""


def run() -> None:
    """Run the command line. Expected errors become one line on stderr and an exit code."""
    if not sys.platform.startswith("linux"):
        _fail(f"Runyard runs on Linux; this is {sys.platform}.", Exit.NO)
    try:
        build_app(in_terminal=sys.stdout.isatty())()
    except CommandError as refusal:
        _fail(str(refusal), refusal.exit_code)
    except Unreachable as error:
        _fail(str(error), Exit.NO_SERVICE)
    except (ServiceError, RunyardError) as error:
        _fail(str(error), BY_ERROR_CODE.get(error.code, Exit.NO))
    except OSError as error:  # no permission, a full disk
        _fail(str(error), Exit.NO)


def build_app(*, in_terminal: bool) -> typer.Typer:
    app = typer.Typer(
        cls=lazy_group(COMMANDS),
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if in_terminal else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"runyard (API {API}) {VERSION}")  # SDKs read the last word
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options of the program itself; `_print_version` has acted by now."""


def _fail(message: str, exit_code: Exit) -> NoReturn:
    print(f"Error: {message}", file=sys.stderr)
    raise SystemExit(exit_code)
