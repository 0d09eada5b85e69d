"""Entry point of the console script `runyard`."""

import sys


def main() -> None:
    # The SDK runs `runyard serve` on first use and waits for it: skip the import of the command line.
    if sys.argv[1:2] == ["serve"] and not {"-h", "--help"} & set(sys.argv):
        from runyard.server.lifecycle.process import main as serve

        sys.exit(serve(sys.argv[2:]))
    # Imported here for the same reason: `serve` starts without Typer.
    from runyard.cli.application import run

    run()
