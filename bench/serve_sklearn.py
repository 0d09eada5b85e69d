"""A logistic regression of scikit-learn, deployed without code, under load: against uvicorn with a bare Starlette route
that does the same predict, and against the servers people would pick instead. One worker process each, one thread."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from bench.home import Home, open_home
from bench.measuring import Bar, Measurement
from bench.peers.process import PeerFailed, peer_python
from bench.serving.deploying import deployed, no_code_target, register_iris, script, script_target
from bench.serving.iris import PEERS, UVICORN, Iris, make_iris_for_peers
from bench.serving.load import Target, generator
from bench.serving.rounds import CONNECTIONS, FLOOR, OURS, Rounds
from bench.serving.servers import SCRIPTS, serving

ROUNDS, RARE, SECONDS = 5, 2, 1.2
OWN_SCRIPT = "ours, by the script that azureml-inference-server-http runs"


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        iris = make_iris_for_peers(Path(folder, "model"))
        load = opened.enter_context(generator())
        floor = opened.enter_context(serving(UVICORN, iris.question, iris.model, Path(folder, "floor")))
        peers, reasons = _open_peers(opened, iris, Path(folder))
        targets = {FLOOR: floor.target, **_open_ours(opened.enter_context(open_home()), iris), **peers}
        rounds = Rounds(load, targets, reasons)
        rounds.play(ROUNDS, SECONDS, rarely=(OWN_SCRIPT, *peers), rare=RARE)
    for connections in CONNECTIONS:
        yield rounds.measurement("scikit-learn logistic regression", connections, _ahead)


def _open_peers(opened: ExitStack, iris: Iris, folder: Path) -> tuple[dict[str, Target], dict[str, str]]:
    targets, reasons = {}, {}
    for name, kind in PEERS.items():
        try:
            server = opened.enter_context(serving(kind, iris.question, iris.model, folder / name))
            targets[name] = server.target
        except PeerFailed as failure:
            reasons[name] = str(failure)
    return targets, reasons


def _open_ours(home: Home, iris: Iris) -> dict[str, Target]:
    model = register_iris(home, iris.model)
    text = (SCRIPTS / "score.py").read_text(encoding="utf-8")
    with_script = script(home, "iris-script", text, peer_python(UVICORN.environment))
    return {
        OURS: no_code_target(deployed(home, "iris", [model]), iris.question),
        OWN_SCRIPT: script_target(deployed(home, "iris-script", [model], with_script), iris.question),
    }


def _ahead(connections: int, others: Mapping[str, float | None]) -> Bar:
    best = max((rate for name, rate in others.items() if rate is not None and name in PEERS), default=0.0)
    if connections == max(CONNECTIONS):
        return Bar("ahead of every peer, and at least the floor", lambda value, floor: value > best and value >= floor)
    return Bar("ahead of every peer", lambda value, _: value > best)
