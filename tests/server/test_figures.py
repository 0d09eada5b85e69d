"""Health and figures of a real service, read as probes and Prometheus read them."""

import os
import re
import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runyard.access.tokens import Tokens
from runyard.core.version import VERSION
from runyard.server.lifecycle import start_service
from runyard.testing.small_disk import mounted
from tests.cli.conftest import RUNYARD
from tests.conftest import end_home
from tests.faults.yard import eventually
from tests.serving.test_web_services_answering import ask, deploy, ended, model
from tests.storage.conformance.postgres_server import private_server
from tests.wire_client import PREFIX, WireClient

SECONDS = 60
KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"}
SECRETS = ("s3cret-name", "s3cret-tag", "s3cret-metric")


def scraped(client, token=None):
    """Samples of a scrape by name and labels."""
    answer = (client.with_token(token) if token else client).ask("GET", "/metrics")
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def value(samples, name, **labels):
    return samples.get((name, tuple(sorted(labels.items()))))


def test_probes_need_no_token_and_are_told_one_word(client):
    health = client.ask("GET", "/healthz", authorization="")
    assert (health.status, health.json) == (200, {"status": "ok"})
    ready = client.ask("GET", "/readyz", authorization="")
    assert (ready.status, ready.json) == (200, {"status": "ready"})


def test_figures_need_the_owners_token_or_their_own_which_opens_nothing_else(client):
    token = Tokens(client.token).metrics_token()
    assert client.ask("GET", "/metrics", authorization="").status == 401
    assert client.with_token(Tokens("another").metrics_token()).ask("GET", "/metrics").status == 401
    assert value(scraped(client, token), "runyard_info", version=VERSION, wire="1", database="sqlite") == 1
    assert client.with_token(token).ask("GET", f"{PREFIX}/health").status == 401
    assert client.with_token(token).refusal("GET", client.here)["status"] == 401


def test_the_command_prints_the_token(service):
    variables = {**os.environ, "RUNYARD_HOME": service["home"]}
    printed = subprocess.run([RUNYARD, "metrics", "token"], env=variables, capture_output=True, text=True, check=True)
    assert printed.stdout == Tokens(service["token"]).metrics_token() + "\n"


def test_a_scrape_tells_of_runs_points_requests_database_and_disk(client):
    before = scraped(client)
    client.interactive_run("figures-1")
    client.post("/runs/figures-1/journals/figures-1~0-1-a", b'["m","acc",0.5,null,1.0]\n["m","acc",0.6,null,2.0]\n')
    client.patch("/runs/figures-1", {"status": "Completed"})

    def grown(name, **labels):
        return (value(scraped(client), name, **labels) or 0) - (value(before, name, **labels) or 0)

    assert grown("runyard_points_stored_total") >= 2
    assert grown("runyard_runs_ended_total", state="Completed") >= 1
    eventually(lambda: grown("runyard_runs", state="Completed") >= 1, "the run in the tally", SECONDS)
    eventually(lambda: grown("runyard_run_phase_seconds_count", phase="Running") >= 1, "its phases", SECONDS)
    after = scraped(client)
    posted = {"method": "POST", "route": f"{PREFIX}/runs/{{run_id}}/journals/{{journal}}"}
    assert grown("runyard_http_requests_total", status="200", **posted) >= 1
    assert grown("runyard_http_request_seconds_count", **posted) >= 1
    assert 0 < value(after, "runyard_database_ping_seconds") < SECONDS
    assert value(after, "runyard_database_bytes") > 10_000
    assert 0 < value(after, "runyard_home_free_bytes") < value(after, "runyard_home_size_bytes")
    assert value(after, "process_open_fds") > 3
    assert value(after, "process_resident_memory_bytes") > 1_000_000
    assert {amount for (name, _), amount in after.items() if name == "runyard_scrape_errors_total"} == {0}


def test_no_label_holds_what_users_wrote_and_none_grows_with_what_strangers_send(client):
    client.interactive_run("s3cret-name", tags={"s3cret-tag": "s3cret-tag"}, experiment="s3cret-name")
    client.post("/runs/s3cret-name/journals/s3cret-name~0-1-a", b'["m","s3cret-metric",0.5,null,1.0]\n')
    for number in range(20):
        client.ask(f"S3CRET-NAME{number}", f"/s3cret-name/{number}", authorization="")
        client.ask("GET", f"/s3cret-name/{number}?key=s3cret-tag", authorization="")
    text = client.ask("GET", "/metrics").body.decode()
    assert not [secret for secret in (*SECRETS, client.token, client.token[:12]) if secret.lower() in text.lower()]
    unknown = [line for line in text.splitlines() if 'route="other"' in line and "requests_total" in line]
    assert {line.partition("method=")[2].split('"')[1] for line in unknown} <= KNOWN_METHODS
    assert set(re.findall(r'(\w+)="', text)) <= {
        *("method", "route", "status", "le", "state", "phase", "workspace", "compute", "service", "part"),
        *("version", "wire", "database"),
    }


def test_a_scrape_tells_of_web_services_and_of_a_gateway_that_is_away(home):
    facts = start_service(home, keep=True)
    client = WireClient(facts["url"], facts["token"], workspace="serving")
    client.put(client.here, {"exist_ok": True})
    assert value(scraped(client), "runyard_gateway_up") is None
    model(client)
    deploy(client)
    record = ended(client)
    assert [ask(record)[0] for _ in range(3)] == [200] * 3
    of_it = {"workspace": "serving", "service": "my-service"}
    eventually(
        lambda: value(scraped(client), "runyard_web_service_requests_total", status="200", **of_it) == 3,
        "its requests",
        SECONDS,
    )
    samples = scraped(client)
    assert value(samples, "runyard_web_service_seconds_count", **of_it) == 3
    assert value(samples, "runyard_web_service_seconds_sum", **of_it) > 0
    assert value(samples, "runyard_web_service_replicas", state="ready", **of_it) == 1
    assert value(samples, "runyard_gateway_up") == 1


@pytest.mark.servers
def test_a_database_that_is_away_makes_it_not_ready_and_a_scrape_goes_on(home, monkeypatch):
    with private_server() as url:
        monkeypatch.setenv("RUNYARD_DATABASE_URL", url)
        facts = start_service(home, keep=True)
        client = WireClient(facts["url"], facts["token"])
        assert client.ask("GET", "/readyz").status == 200
        assert value(scraped(client), "runyard_database_bytes") > 0

    def probed():
        answer = client.ask("GET", "/readyz", authorization="")
        return answer.status == 503 and answer.json

    assert eventually(probed, "a refusal", SECONDS) == {"status": "not ready", "reason": "database unreachable"}
    assert client.ask("GET", "/healthz", authorization="").status == 200
    eventually(lambda: value(scraped(client), "runyard_database_bytes") is None, "a figure left out", SECONDS)
    samples = scraped(client)
    assert value(samples, "runyard_scrape_errors_total", part="database") > 0
    assert value(samples, "runyard_home_free_bytes") > 0


def test_a_full_disk_makes_it_not_ready(tmp_path):
    with mounted(tmp_path / "small", 100) as disk:
        home = disk / "home"
        facts = start_service(home, keep=True)
        client = WireClient(facts["url"], facts["token"])
        try:
            assert client.ask("GET", "/readyz").status == 200
            (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - (20 << 20)))
            answer = client.ask("GET", "/readyz", authorization="")
            assert (answer.status, answer.json) == (503, {"status": "not ready", "reason": "disk full"})
        finally:
            (disk / "filler").unlink(missing_ok=True)
            end_home(home)
