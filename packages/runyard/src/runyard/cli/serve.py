"""`runyard serve`: the service in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from runyard.server.lifecycle.process import main


def serve(
    keep: Annotated[bool, typer.Option("--keep/--on-demand", help="Stay when idle, or stop after 30 minutes.")] = True,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="This port of 127.0.0.1; else a free one.")] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Be reached by other machines too; 0.0.0.0 for any way in.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate, in PEM form.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")] = None,
    no_tls: Annotated[bool, typer.Option("--no-tls", help="Listen for others without encryption.")] = False,
) -> None:
    """Run the service in the foreground.

    Example: runyard serve --listen 0.0.0.0:8443 --tls-cert service.crt --tls-key service.key
    """
    # `runyard.cli.main` runs `serve` before the command line is built; this function gives its help.
    options = {"--listen": listen, "--tls-cert": tls_cert, "--tls-key": tls_key}
    given = [f"{name}={value}" for name, value in options.items() if value] + ["--no-tls"] * no_tls
    raise typer.Exit(main(["--keep" if keep else "--on-demand", "--port", str(port or 0), *given]))
