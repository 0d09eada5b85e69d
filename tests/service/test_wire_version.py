"""A client and a service of different versions still understand each other, or say clearly that they do not."""

import pytest


@pytest.mark.parametrize("path", ["/api/v2/health", "/api/v0/health", "/health", "/api/v1/brand-new-route"])
def test_a_route_of_another_version_is_not_found_in_words_and_names_our_wire(client, path):
    answer = client.ask("GET", path)
    assert (answer.status, answer.json["code"]) == (404, "not_found")
    assert "newer" in answer.json["hint"]
    assert answer.headers["x-runyard-wire"] == "1"


def test_fields_of_a_newer_client_are_ignored(client):
    run = client.interactive_run("newer-client", from_the_future={"a": [1]})
    assert run["status"] == "Running"
    assert client.patch("/runs/newer-client", {"from_the_future": 1})["id"] == "newer-client"
    assert client.put(client.here, {"exist_ok": True, "from_the_future": 1})["name"] == client.workspace


def test_journal_lines_of_a_newer_sdk_do_not_cost_the_others(client):
    client.interactive_run("newer-journal")
    body = b'["brand-new",1,2,3]\n["m","acc",0.5,null,1.0,"one more"]\n["m","acc",0.75,null,1.0]\n'
    assert client.post("/runs/newer-journal/journals/newer-journal~0-1-a", body) == {"offset": len(body)}
    assert client.get("/runs/newer-journal?metrics=1")["metrics"] == {"acc": 0.75}


def test_a_method_that_a_route_does_not_have_is_refused_in_words(client):
    answer = client.ask("PUT", "/api/v1/health")
    assert (answer.status, answer.json["code"]) == (405, "invalid_argument")
