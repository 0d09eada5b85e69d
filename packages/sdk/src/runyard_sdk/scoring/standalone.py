"""`python -m runyard_sdk.scoring.standalone package.json`: one scorer behind the standard library's HTTP server.

For folders that Model.package makes. package.json holds what an `S` frame does, its paths relative to the file.
"""
import argparse
import json
import os
import signal
import sys
import threading

from runyard_sdk.scoring.failure import failure_facts, log_failure
from runyard_sdk.scoring.http_server import ScoringServer
from runyard_sdk.scoring.loading import load_scorer
from runyard_sdk.scoring.output import open_log_streams
from runyard_sdk.scoring.start import Start

DEFAULT_PORT = 5001
USUAL_FOLDERS = {"app_root": "azureml-app", "models_root": "azureml-models"}


def main(arguments=None):
    """Serve until told to end; 1 where the scorer did not load, with the cause on stderr."""
    options = _options(arguments)
    open_log_streams()
    start = read_package(options.package)
    start.take_place()
    try:
        scorer = load_scorer(start)
    except BaseException as error:  # whatever a script raises while it loads, the user reads why
        log_failure(failure_facts(error, start))
        return 1
    server = ScoringServer((options.host, options.port), scorer, start.service)
    _end_when_told()
    helpers = [server.serve_forever] + [server.score_forever] * (start.requests_at_once - 1)
    for helper in helpers:
        threading.Thread(target=helper, daemon=True).start()
    print("Serving %s at http://%s:%d/score" % (start.service or start.scorer, options.host, server.server_port))
    server.score_forever()


def read_package(path):
    """The Start that the file describes."""
    folder = os.path.dirname(os.path.abspath(path))
    with open(path, "rb") as source:
        facts = json.loads(source.read().decode("utf-8"))
    for name, usual in USUAL_FOLDERS.items():
        facts[name] = os.path.join(folder, facts.get(name) or usual)
    return Start.of_facts(facts)


def _end_when_told():
    """At once, and in a container too, whose first process the kernel sends no other end."""
    for told in (signal.SIGINT, signal.SIGTERM):
        signal.signal(told, lambda number, frame: os._exit(0))


def _options(arguments):
    parser = argparse.ArgumentParser(prog="python -m runyard_sdk.scoring.standalone",
                                     description="Answer HTTP requests with a packaged model.")
    parser.add_argument("package", nargs="?", default="package.json", help="the file that says what to serve")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; 0.0.0.0 inside a container")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 for any free one")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
