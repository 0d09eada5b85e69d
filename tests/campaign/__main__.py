"""`python -m tests.campaign`: kill, stop and fill the disk at random under real work, then compare with the notes.

Prints one JSON line and exits 1 where anything was lost, stored twice or untrue. Parts add up: `--ledger FILE` appends
the line of each part, and `--sum` prints their total.
"""

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.campaign.site import FullDisk, Site, send
from tests.campaign.verdict import judge

WEIGHTS = {
    "service": 4,
    "agent": 3,
    "supervisor": 6,
    "script": 2,
    "client": 2,
    "gateway": 2,
    "worker": 1,
    "database": 1,
}
STOPPED = ("service", "agent", "supervisor", "gateway")
ANSWER_SECONDS = 60.0
END_SECONDS = 600.0


def main() -> int:
    given = _arguments()
    if given.sum:
        return _print_sum(Path(given.ledger))
    line = _part(given)
    print(json.dumps(line), flush=True)
    if given.ledger:
        with Path(given.ledger).open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps(line) + "\n")
    return 1 if line["faults"] else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--stops", type=int, default=4, help="stops of one process (SIGSTOP) among the kills")
    parser.add_argument("--stop-seconds", type=float, default=60.0)
    parser.add_argument("--full-disk", type=int, default=0, metavar="TIMES", help="fill the disk so often (needs root)")
    parser.add_argument("--postgres", action="store_true", help="PostgreSQL instead of SQLite")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3, help="unfinished runs of each client")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between kills, at most")
    parser.add_argument("--ledger", default="", help="append this part's line to a file")
    parser.add_argument("--sum", action="store_true", help="print the total of the ledger's parts")
    parser.add_argument("--keep", action="store_true", help="keep home and notes")
    return parser.parse_args()


def _part(given: argparse.Namespace) -> dict[str, object]:
    seed = given.seed or random.SystemRandom().randrange(1, 1 << 31)
    root = Path(tempfile.mkdtemp(prefix="campaign-"))
    disk = FullDisk(root / "disk", 900) if given.full_disk else None
    site = Site(
        (disk.place if disk else root) / "site",
        root / "notes",
        on_postgres=given.postgres,
        clients=given.clients,
        runs_each=given.runs,
    )
    site.folder.mkdir()
    begun = time.monotonic()
    try:
        site.open()
        kills, killed, slowest = _disturb(site, given, random.Random(seed), disk)
        site.no_more_work()
        site.serve()
        _until_all_have_ended(site)
        judgement = judge(site.notes, killed)
    finally:
        with suppress(Exception):
            site.close()
        if disk:
            disk.close()
    line = {
        "campaign": "postgresql" if given.postgres else "sqlite",
        "seed": seed,
        "kills": sum(kills.values()) - kills["stop"] - kills["full disk"],
        "by": dict(kills),
        "slowest_answer_s": round(slowest, 2),
        "seconds": round(time.monotonic() - begun),
        "runs": judgement.runs,
        "points": judgement.points,
        "lines": judgement.lines,
        "statuses": dict(judgement.statuses),
        "faults": judgement.faults,
    }
    if not given.keep and not judgement.faults:
        shutil.rmtree(root, ignore_errors=True)
    else:
        print(f"Kept: {root}", file=sys.stderr)
    return line


def _disturb(
    site: Site, given: argparse.Namespace, dice: random.Random, disk: FullDisk | None
) -> tuple[Counter[str], set[int], float]:
    kills: Counter[str] = Counter()
    killed: set[int] = set()
    slowest = 0.0
    kinds = [kind for kind in WEIGHTS if kind != "database" or site.postgres]
    stops_at = set(dice.sample(range(given.kills), min(given.kills, given.stops)))
    fills_at = set(dice.sample(range(given.kills), min(given.kills, given.full_disk)))
    done = 0
    while done < given.kills:
        site.keep_clients()
        time.sleep(dice.uniform(0.1, given.pause))
        if done in stops_at:
            stops_at.discard(done)
            _stop(site, dice, given.stop_seconds)
            kills["stop"] += 1
        if disk and done in fills_at:
            fills_at.discard(done)
            disk.fill()
            time.sleep(dice.uniform(5, 20))
            disk.empty()
            kills["full disk"] += 1
        kind = dice.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        living = site.victims(kind)
        if not living:
            continue
        pid = dice.choice(living)
        if not send(pid, signal.SIGKILL):
            continue
        killed.add(pid)
        kills[kind] += 1
        done += 1
        site.after_kill(kind)
        if kind in ("gateway", "worker"):
            slowest = max(slowest, site.answers(ANSWER_SECONDS))
        if done % 25 == 0:
            print(f"{done} of {given.kills} kills: {dict(kills)}", file=sys.stderr, flush=True)
    return kills, killed, slowest


def _stop(site: Site, dice: random.Random, seconds: float) -> None:
    kind = dice.choice(STOPPED)
    living = site.victims(kind)
    if living:
        pid = dice.choice(living)
        print(f"{kind} {pid} is stopped for {seconds} s", file=sys.stderr, flush=True)
        if send(pid, signal.SIGSTOP):
            time.sleep(seconds)
            send(pid, signal.SIGCONT)


def _until_all_have_ended(site: Site) -> None:
    from azureml.core import Workspace
    from tests.faults.yard import ENDED

    def unfinished() -> list[str]:
        runs = [
            run
            for experiment in Workspace.get("campaign").experiments.values()
            for run in experiment.get_runs(include_children=True)
        ]
        return [run.id for run in runs if run.get_status() not in ENDED]

    ends_at = time.monotonic() + END_SECONDS
    while unfinished() and time.monotonic() < ends_at:
        time.sleep(1)


def _print_sum(ledger: Path) -> int:
    parts = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    by: Counter[str] = Counter()
    for part in parts:
        by.update(part["by"])
    total = {name: sum(part[name] for part in parts) for name in ("kills", "runs", "points", "lines", "seconds")}
    faults = [fault for part in parts for fault in part["faults"]]
    print(json.dumps({"parts": len(parts), **total, "by": dict(by), "faults": faults}))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
