import pytest

from runyard.server.lifecycle import start_service, stop_service
from tests.storage.conformance.conftest import postgres_url
from tests.wire_client import WireClient

__all__ = ["postgres_url"]


@pytest.mark.servers
def test_the_service_keeps_its_runs_in_postgresql(home, postgres_url, monkeypatch):
    monkeypatch.setenv("RUNYARD_DATABASE_URL", postgres_url)
    facts = start_service(home, keep=False)
    client = WireClient(facts["url"], facts["token"], workspace="on-postgres")
    client.put(client.here, {"exist_ok": True})
    client.interactive_run("in-postgres")
    client.post("/runs/in-postgres/journals/in-postgres~0-1-a", b'["m","acc",0.5,null,1.0]\n')
    assert not (home / "runyard.db").exists()
    assert stop_service(home)
    again = start_service(home, keep=False)
    client = WireClient(again["url"], again["token"], workspace="on-postgres")
    assert client.get("/runs/in-postgres?metrics=1")["metrics"] == {"acc": 0.5}
    client.patch("/runs/in-postgres", {"status": "Completed"})
