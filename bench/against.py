"""`python -m bench.against COMMIT NAME ...`: the named rows here and at another commit, without the peers.

Both sides run at the same time and take turns with each repeat, so that a slow moment of the machine hits both; which
of them begins alternates from round to round. The table has the medians over the rounds and the ratio of here to there.
Above 1 is slower where the unit is one of time, faster where it is a rate.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from bench.measuring import median

REPOSITORY = Path(__file__).resolve().parents[1]
OTHERS = REPOSITORY / ".cache" / "bench-commits"
# Both sides use their own bench code, which may know nothing of this file.
SIDE = """
import os, sys
from bench import measuring
from bench.peers import process
from bench.serving import iris
from bench.serving.rounds import Rounds
make, interleaved = process.open_peers, measuring.interleaved
asks, hears = int(sys.argv[1]), int(sys.argv[2])
process.open_peers = lambda wanted, folder: make({}, folder)
iris.make_iris_for_peers = iris.make_iris
iris.PEERS.clear()

def in_turn(subject):
    def run(*given):
        os.write(asks, b"?")
        os.read(hears, 1)
        try:
            return subject(*given)
        finally:
            os.write(asks, b".")
    return run

Rounds._send = in_turn(Rounds._send)

def taking_turns(subjects, *given, **named):
    return interleaved({name: in_turn(subject) for name, subject in subjects.items()}, *given, **named)

measuring.interleaved = taking_turns
from bench.__main__ import main
sys.exit(main(sys.argv[3:]))
"""

Taken = dict[tuple[str, str], dict[str, list[float]]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("rows", nargs="+", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    sides = {"there": _checkout(given.commit), "here": REPOSITORY}
    taken: Taken = defaultdict(lambda: {"there": [], "here": []})
    for turn in range(given.rounds):
        for row in given.rows:
            for side, lines in _measure(sides, row, first="there" if turn % 2 == 0 else "here").items():
                for line in lines:
                    taken[line["bench"], line["unit"]][side].append(line["value"])
                    print(json.dumps({"round": turn, "side": side, **line}), file=sys.stderr, flush=True)
    _print_table(given.commit, taken)
    return 0


def _checkout(commit: str) -> Path:
    """A clone at that commit, with its own environment; made once."""
    resolve = ["git", "-C", str(REPOSITORY), "rev-parse", "--verify", "--short=12", f"{commit}^{{commit}}"]
    name = subprocess.run(resolve, check=True, capture_output=True, text=True).stdout.strip()
    place = OTHERS / name
    if not place.exists():
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(REPOSITORY), str(place)], check=True)
        subprocess.run(["git", "-C", str(place), "checkout", "--quiet", name], check=True)
    subprocess.run(["make", "--quiet", "-C", str(place), ".venv/.dev"], check=True, stdout=sys.stderr)
    return place


def _measure(sides: dict[str, Path], row: str, first: str) -> dict[str, list[dict[str, float]]]:
    """The lines of each side. A row that ends with an error ends the comparison: half of one would say nothing."""
    running = {side: _Side(sides[side], row) for side in sorted(sides, key=lambda side: side != first)}
    while any(side.asks() for side in running.values()):
        for side in running.values():
            side.take_turn()
    return {name: side.lines() for name, side in running.items()}


class _Side:
    def __init__(self, repository: Path, row: str) -> None:
        self._asked, asks = os.pipe()
        hears, self._say = os.pipe()
        self._process = subprocess.Popen(
            [repository / ".venv" / "bin" / "python", "-c", SIDE, str(asks), str(hears), row],
            cwd=repository,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=(asks, hears),
            env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        )
        os.close(asks)
        os.close(hears)
        self._is_asking = False

    def asks(self) -> bool:
        """Wait until it wants a turn; False when it has ended."""
        self._is_asking = self._is_asking or os.read(self._asked, 1) == b"?"
        return self._is_asking

    def take_turn(self) -> None:
        if self.asks():
            self._is_asking = False
            os.write(self._say, b"!")
            os.read(self._asked, 1)

    def lines(self) -> list[dict[str, float]]:
        output, _ = self._process.communicate()
        os.close(self._asked)
        os.close(self._say)
        if self._process.returncode:
            raise SystemExit(f"A side ended with {self._process.returncode}.")
        return [json.loads(line) for line in output.splitlines()]


def _print_table(commit: str, taken: Taken) -> None:
    print(f"| bench | unit | {commit} | here | ratio | rounds |")
    print("|---|---|---|---|---|---|")
    for (bench, unit), sides in taken.items():
        there, here = median(sides["there"]), median(sides["here"])
        ratio = f"{here / there:.3f}" if there else "-"
        print(f"| {bench} | {unit} | {there:.4g} | {here:.4g} | {ratio} | {len(sides['here'])} |")


if __name__ == "__main__":
    sys.exit(main())
