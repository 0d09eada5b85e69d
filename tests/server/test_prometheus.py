"""The board and the alarms of examples/server, asked of Debian's Prometheus that scrapes a real service."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.access.tokens import Tokens
from runyard.server.lifecycle import start_service
from tests.faults.yard import eventually
from tests.server.test_traces import submit
from tests.servers.prometheus_server import PrometheusServer, program
from tests.serving.test_web_services_answering import ask, deploy, ended, model
from tests.wire_client import WireClient

ROOT = Path(__file__).parents[2]
BOARD, ALARMS = ROOT / "examples" / "server" / "grafana.json", ROOT / "examples" / "server" / "alerts.yml"
SECONDS = 60
WAITING = b"import os, sys, time\nwhile not os.path.exists(sys.argv[1]):\n    time.sleep(0.1)\n"


def queries() -> dict[str, str]:
    """Every query of the board by its panel."""
    panels = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    return {f"{panel['title']} {target['refId']}": target["expr"] for panel in panels for target in panel["targets"]}


def alarms() -> list[str]:
    return re.findall(r"- alert: (\w+)", ALARMS.read_text(encoding="utf-8"))


def test_the_operations_page_says_what_each_alarm_means():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert len(alarms()) > 10
    explained = set(re.findall(r"^\| `(Runyard\w+)` \|", page, re.MULTILINE))
    assert explained == set(alarms())


def test_the_board_shows_each_query_once():
    assert len(set(queries().values())) == len(queries()) > 20


@pytest.mark.servers
def test_the_alarms_are_rules_that_prometheus_takes():
    checked = subprocess.run([program("promtool"), "check", "rules", ALARMS], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert f"{len(alarms())} rules found" in checked.stdout


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[PrometheusServer]:
    folder = tmp_path / "prometheus"
    folder.mkdir()
    server = PrometheusServer(folder)
    yield server
    server.stop()


@pytest.mark.servers
def test_every_query_of_the_board_has_an_answer(home, tmp_path, prometheus):
    facts = start_service(home, keep=True)
    client = WireClient(facts["url"], facts["token"], workspace="traced")
    client.put(client.here, {"exist_ok": True})
    model(client)
    deploy(client)
    record = ended(client)
    work(client, record, "before")
    prometheus.start(facts["url"], Tokens(facts["token"]).metrics_token(), [ALARMS])
    more_scrapes(prometheus)
    fill_queue(client, tmp_path / "enough")
    work(client, record, "after")
    more_scrapes(prometheus)
    empty = {panel: expression for panel, expression in queries().items() if not prometheus.query(expression)}
    (tmp_path / "enough").touch()
    assert [list(client.lines(f"/runs/queued-{number}/stream"))[-1]["end"]["status"] for number in range(2)] == [
        "Completed",
        "Completed",
    ]
    assert empty == {}
    (target,) = prometheus.ask("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    (group,) = prometheus.ask("rules")["groups"]
    assert [(rule["name"], rule["health"], rule.get("lastError")) for rule in group["rules"]] == [
        (name, "ok", None) for name in alarms()
    ]
    ringing = {rule["name"] for rule in group["rules"] if rule["state"] == "firing"}
    assert not ringing & {"RunyardDown", "RunyardDatabaseAway", "RunyardErrors", "RunyardGatewayDown"}


def more_scrapes(prometheus: PrometheusServer) -> None:
    def count() -> float:
        found = prometheus.query("count_over_time(runyard_info[10m])")
        return float(found[0]["value"][1]) if found else 0.0

    seen = count()
    eventually(lambda: count() >= seen + 4, "scrapes", SECONDS)


def work(client: WireClient, record, name: str) -> None:
    """A run with points, and requests to the web service."""
    script = b"from azureml.core import Run\nRun.get_context().log('loss', 0.5)\n"
    assert submit(client, f"scraped-{name}", script) == "Completed"
    assert [ask(record)[0] for _ in range(5)] == [200] * 5


def fill_queue(client: WireClient, enough: Path) -> None:
    """Two runs on a compute target of one node: the second waits."""
    client.post(f"{client.here}/assets/computes", {"name": "one", "body": {"max_nodes": 1}})
    for number in range(2):
        submit(client, f"queued-{number}", WAITING, target="one", arguments=[str(enough)], wait=False)
    eventually(lambda: client.get("/runs/queued-1")["status"] == "Queued", "a queued run", SECONDS)
