"""`python -m bench.against COMMIT NAME ...`: the named rows here and at another commit, in turns, without the peers.

Each round takes every row once on either side; which side begins alternates. The table has the medians over the rounds
and the ratio of here to there. Above 1 is slower where the unit is one of time, faster where it is a rate.
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
WITHOUT_PEERS = """
import sys
from bench.peers import process
make = process.open_peers
process.open_peers = lambda wanted, folder: make({}, folder)
from bench.__main__ import main
sys.exit(main(sys.argv[1:]))
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
            for side in sorted(sides, reverse=turn % 2 == 0):
                for line in _measure(sides[side], row):
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


def _measure(repository: Path, row: str) -> list[dict[str, float]]:
    """Its lines. A row that ends with an error ends the comparison: half of one would say nothing."""
    done = subprocess.run(
        [repository / ".venv" / "bin" / "python", "-c", WITHOUT_PEERS, row],
        cwd=repository,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _print_table(commit: str, taken: Taken) -> None:
    print(f"| bench | unit | {commit} | here | ratio | rounds |")
    print("|---|---|---|---|---|---|")
    for (bench, unit), sides in taken.items():
        there, here = median(sides["there"]), median(sides["here"])
        ratio = f"{here / there:.3f}" if there else "-"
        print(f"| {bench} | {unit} | {there:.4g} | {here:.4g} | {ratio} | {len(sides['here'])} |")


if __name__ == "__main__":
    sys.exit(main())
