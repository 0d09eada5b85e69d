"""`python -m tests.campaign.soak`: mixed work for a while, and what the processes hold meanwhile, as a table.

Runs, sweeps, mounted data and interactive runs come from the clients of the campaign; deployments, cancels, downloads,
deletions and gc from a client of its own, which keeps the number of runs level, so that disk and database can be flat.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runyard.process_logs import LOG_FOLDER
from tests.campaign.scripts import NOTES
from tests.campaign.site import Site

CHURN = (
    NOTES
    + """
import tempfile
from azureml.core import Environment, Experiment, Model, ScriptRunConfig, Workspace
from azureml.core.model import InferenceConfig
from azureml.core.webservice import Webservice
from runyard_sdk.client import Client, quoted

folder, source, scoring, most = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
notes = Notes(folder, "churn")
ws = Workspace.create("campaign", exist_ok=True, show_output=False)
experiment = Experiment(ws, "campaign")
python = Environment("here")
python.python.user_managed_dependencies = True
python.python.interpreter_path = sys.executable
words = ["--notes", folder, "--points", 100000, "--pause", 0.01, "--exit", 0]
turn = 0
while not os.path.exists(os.path.join(folder, "enough")):
    turn += 1
    run = experiment.submit(ScriptRunConfig(source, "train.py", arguments=words, environment=python))
    while run.get_status() not in ("Running", "Failed"):
        time.sleep(0.1)
    run.cancel()
    run.wait_for_completion(raise_on_error=False)
    notes.add("canceled", run.id, run.get_status())
    ended = [one for one in experiment.get_runs(include_children=False)
             if one.get_status() in ("Completed", "Failed", "Canceled")]
    for one in ended[:3]:
        with tempfile.TemporaryDirectory() as place:
            for name in one.get_file_names()[:5]:
                one.download_file(name, os.path.join(place, os.path.basename(name)))
    for one in ended[most:]:
        children = [child.id for child in one.get_children()]
        for run_id in children + [one.id]:
            Client().delete("/runs/" + quoted(run_id))
    notes.add("deleted", max(0, len(ended) - most))
    Client().post("/gc", {"older_than_seconds": 60})
    if turn % 3 == 0:
        config = InferenceConfig("score.py", source_directory=scoring, environment=python)
        service = Model.deploy(ws, "soak", [Model(ws, "campaign")], config, overwrite=True)
        service.wait_for_deployment()
        assert service.run("{}") == "scored"
        service.delete()
        notes.add("deployed", turn)
    time.sleep(1)
"""
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between rows")
    parser.add_argument("--kept-runs", type=int, default=60, help="ended runs that stay")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="soak-"))
    site = Site(root / "site", root / "notes", on_postgres=False, clients=2, runs_each=2)
    site.folder.mkdir()
    site.open()
    (root / "churn.py").write_text(CHURN, encoding="utf-8")
    words = [root / "churn.py", site.notes, site.folder / "source", site.folder / "scoring", given.kept_runs]
    with (root / "churn.log").open("wb") as log:
        churn = subprocess.Popen([sys.executable, *map(str, words)], stdout=log, stderr=log)
    rows = []
    begun = time.monotonic()
    try:
        while time.monotonic() - begun < given.minutes * 60:
            time.sleep(given.every)
            site.keep_clients()
            rows.append(_row(site, time.monotonic() - begun))
            print(json.dumps(rows[-1]), flush=True)
            if churn.poll() is not None:
                print(f"The client of deployments and cancels ended with {churn.returncode}:", file=sys.stderr)
                print((root / "churn.log").read_text(), file=sys.stderr)
                return 1
    finally:
        site.no_more_work()
        churn.wait(120)
        site.close()
    _print_table(rows)
    return 0


def _row(site: Site, seconds: float) -> dict[str, float]:
    row: dict[str, float] = {"minute": round(seconds / 60, 1)}
    for kind in ("service", "agent", "gateway"):
        pids = site.victims(kind)
        if pids:
            row |= {f"{kind}_{name}": value for name, value in _held_by(pids[0]).items()}
    database = [site.home / name for name in ("runyard.db", "runyard.db-wal")]
    row["database_mb"] = round(sum(file.stat().st_size for file in database if file.exists()) / 1e6, 1)
    logs = _megabytes(site.home / LOG_FOLDER)
    row["home_mb"] = round(_megabytes(site.home) - logs, 1)
    row["process_logs_mb"] = logs  # grow up to their own bound, see process_logs/output.py
    row["notes"] = sum(1 for _ in site.notes.iterdir())
    return row


def _megabytes(folder: Path) -> float:
    used = subprocess.run(["du", "-sk", str(folder)], capture_output=True, text=True, check=False).stdout.split()
    return round(int(used[0]) / 1024, 1) if used else 0.0


def _held_by(pid: int) -> dict[str, float]:
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    return {
        "rss_mb": round(int(status["VmRSS"].split()[0]) / 1024, 1),
        "fds": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(status["Threads"]),
    }


def _print_table(rows: list[dict[str, float]]) -> None:
    names = list(rows[-1])
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for row in rows:
        print("| " + " | ".join(f"{row.get(name, 0):g}" for name in names) + " |")


if __name__ == "__main__":
    sys.exit(main())
