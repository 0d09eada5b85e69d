"""All commands in one Typer application. Commands import heavy modules themselves, so that `--help` stays quick."""

import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from runyard.cli import assets, backups, compute, data, datastores, doctor, process_logs, runs, service, tensorboard
from runyard.cli.connection import ServiceError, Unreachable
from runyard.cli.environments import commands as environments
from runyard.cli.exits import BY_ERROR_CODE, CommandError, Exit
from runyard.cli.service import du, gc, metrics_app
from runyard.cli.sweeps import commands as sweeps
from runyard.cli.web_services import commands as services
from runyard.cli.web_services import deploy, profile
from runyard.core.errors import RunyardError

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
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if in_terminal else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    commands: list[Callable[..., None]] = [service.up, service.down, service.status, service.serve, process_logs.logs]
    commands += [deploy.deploy, du, gc, doctor.doctor, tensorboard.tensorboard]
    commands += [backups.backup, backups.restore, backups.check]
    for command in commands:
        app.command()(command)
    assets.models.command()(profile.profile)
    app.add_typer(runs.app, name="runs")
    app.add_typer(sweeps.app, name="sweeps")
    app.add_typer(assets.experiments, name="experiments")
    app.add_typer(assets.models, name="models")
    app.add_typer(services.app, name="services")
    app.add_typer(compute.app, name="compute")
    app.add_typer(data.app, name="data")
    app.add_typer(datastores.app, name="datastores")
    app.add_typer(environments.app, name="environments")
    app.add_typer(metrics_app, name="metrics")
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from runyard.core.version import API, VERSION

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
