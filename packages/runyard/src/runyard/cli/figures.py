import typer

from runyard.cli.connection import connect

app = typer.Typer(no_args_is_help=True, help="Figures for Prometheus.")


@app.callback()
def _group() -> None:
    """Keep the group although it has one command."""


@app.command()
def token() -> None:
    """Print the token that opens GET /metrics and nothing else.

    It changes with the owner's token. Keep it in the file that `credentials_file` of Prometheus names.

    Example: runyard metrics token > /etc/prometheus/runyard.token
    """
    from runyard.services.tokens import Tokens

    print(Tokens(connect().token).metrics_token())
