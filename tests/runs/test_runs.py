from urllib.parse import urlsplit

import pytest

from tests.wire_client import PREFIX


def test_tags_are_merged_and_a_null_removes_one(client):
    client.interactive_run("tags-1", tags={"a": "1"})
    run = client.patch("/runs/tags-1", {"tags": {"b": "2", "a": None}, "display_name": "Fancy", "description": "d"})
    assert (run["tags"], run["display_name"], run["description"]) == ({"b": "2"}, "Fancy", "d")


def test_a_property_once_set_stays(client):
    client.interactive_run("props-1", properties={"a": "1"})
    assert client.refusal("PATCH", "/runs/props-1", {"properties": {"a": "2"}})["code"] == "conflict"
    assert client.patch("/runs/props-1", {"properties": {"a": "1", "b": "2"}})["properties"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize("end", ["Completed", "Failed", "Canceled"])
def test_an_interactive_run_ends_as_its_script_says(client, end):
    run_id = f"ends-{end}"
    client.interactive_run(run_id)
    ended = client.patch(f"/runs/{run_id}", {"status": end})
    assert (ended["status"], ended["ended_at"] is not None) == (end, True)
    assert client.patch(f"/runs/{run_id}", {"status": end})["version"] == ended["version"]


def test_an_ended_run_stays_ended(client):
    client.interactive_run("ended-1")
    client.patch("/runs/ended-1", {"status": "Failed"})
    assert client.refusal("PATCH", "/runs/ended-1", {"status": "Completed"})["code"] == "conflict"
    assert client.post("/runs/ended-1/cancel")["status"] == "Failed"


@pytest.mark.parametrize("status", ["Running", "Queued", "nonsense", ""])
def test_a_status_that_is_no_end_cannot_be_set(client, status):
    client.interactive_run(f"set-{status}")
    assert client.refusal("PATCH", f"/runs/set-{status}", {"status": status})["code"] == "invalid_argument"


def test_children_left_open_end_with_their_parent(client):
    client.interactive_run("parent-1")
    client.interactive_run("child-1", parent_id="parent-1")
    client.interactive_run("grandchild-1", parent_id="child-1")
    client.patch("/runs/parent-1", {"status": "Completed"})
    assert client.get("/runs/child-1")["status"] == "Completed"
    assert client.get("/runs/grandchild-1")["status"] == "Completed"
    assert client.get("/runs/grandchild-1")["root_id"] == "parent-1"


def test_a_run_is_deleted_once_it_has_ended(client):
    client.interactive_run("gone-1")
    client.post("/runs/gone-1/logs/azureml-logs/70_driver_log.txt?offset=0", b"x")
    assert client.refusal("DELETE", "/runs/gone-1")["code"] == "conflict"
    client.patch("/runs/gone-1", {"status": "Completed"})
    client.delete("/runs/gone-1")
    client.delete("/runs/gone-1")
    assert client.refusal("GET", "/runs/gone-1")["code"] == "not_found"


def test_a_deleted_run_takes_its_children_along_once_all_have_ended(client):
    client.interactive_run("tree-1")
    client.interactive_run("tree-2", parent_id="tree-1")
    client.patch("/runs/tree-1", {"status": "Completed"})
    client.interactive_run("tree-3", parent_id="tree-2")
    refused = client.refusal("DELETE", "/runs/tree-1")
    assert (refused["code"], "tree-3" in refused["problem"]) == ("conflict", True)
    client.patch("/runs/tree-3", {"status": "Completed"})
    client.delete("/runs/tree-1")
    for gone in ("tree-1", "tree-2", "tree-3"):
        assert client.refusal("GET", f"/runs/{gone}")["code"] == "not_found"


def test_what_is_no_text_and_no_64_bit_number_can_be_read_back_all_the_same(client):
    client.interactive_run("odd-1")
    client.post(
        "/runs/odd-1/journals/odd-1~0-1-a", b'["m","huge",%d,null,1.0]\n["m","half","\\ud800",null,1.0]\n' % 10**400
    )
    client.patch("/runs/odd-1", {"status": "Completed"})
    run = client.get("/runs/odd-1?metrics=1")
    assert run["metrics"] == {"huge": str(10**400), "half": "\\ud800"}
    assert b'"end"' in client.read("/runs/odd-1/stream")
    address = urlsplit(run["web_view"])
    page = client.ask("GET", f"{address.path}?{address.query}", authorization="")
    assert (page.status, b"half" in page.body) == (200, True)


def test_a_listing_goes_on_where_it_stopped(client):
    for number in range(5):
        client.interactive_run(f"page-{client.workspace}-{number}")
    seen, before = [], ""
    while True:
        page = client.get(f"{client.here}/runs?limit=2{before}")
        seen += [run["number"] for run in page["runs"]]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert seen == [5, 4, 3, 2, 1]
    assert "definition" not in page["runs"][0]


def test_a_listing_filters(client):
    client.interactive_run("filter-1", tags={"kind": "a"})
    client.interactive_run("filter-2", tags={"kind": "b"}, properties={"p": "1"})
    client.interactive_run("filter-3", parent_id="filter-2")
    client.patch("/runs/filter-1", {"status": "Completed"})

    def listed(query):
        return [run["id"] for run in client.get(f"{client.here}/runs?{query}")["runs"]]

    assert listed("") == ["filter-2", "filter-1"]
    assert listed("children=1") == ["filter-3", "filter-2", "filter-1"]
    assert listed("parent=filter-2") == ["filter-3"]
    assert listed("tag=kind") == ["filter-2", "filter-1"]
    assert listed("tag=kind%3Da") == ["filter-1"]
    assert listed("property=p") == ["filter-2"]
    assert listed("status=Completed") == ["filter-1"]
    assert listed("experiment=none") == []
    assert client.refusal("GET", f"{client.here}/runs?status=odd")["code"] == "invalid_argument"
    assert client.refusal("GET", f"{client.here}/runs?limit=many")["code"] == "invalid_argument"


def test_the_best_runs_come_first_by_a_metric(client):
    for number in range(4):
        client.interactive_run(f"best-{number}")
        client.post(f"/runs/best-{number}/journals/best-{number}~0-1-a", b'["m","acc",%d,null,1.0]\n' % number)
    found = client.get(f"{client.here}/runs?order_by_metric=acc&above=0&metrics=1")["runs"]
    assert [run["id"] for run in found] == ["best-3", "best-2", "best-1"]
    assert found[0]["metrics"] == {"acc": 3.0}


def test_waiting_returns_when_the_run_changes(client):
    run = client.interactive_run("wait-1")
    same = client.get(f"/runs/wait-1/wait?version={run['version']}&timeout=0")
    assert same["version"] == run["version"]
    client.patch("/runs/wait-1", {"tags": {"a": "b"}})
    assert client.get(f"/runs/wait-1/wait?version={run['version']}&timeout=30")["tags"] == {"a": "b"}


def test_events_and_phases_tell_the_history(client):
    client.interactive_run("events-1")
    client.patch("/runs/events-1", {"status": "Completed"})
    history = client.get("/runs/events-1/events")
    assert [event["text"] for event in history["events"]] == ["Running", "Completed"]
    assert [phase["name"] for phase in history["phases"]] == ["Running"]


@pytest.mark.parametrize("run_id", ["nobody", "..%2f..%2fetc", "a%00b"])
@pytest.mark.parametrize("what", ["", "/events", "/metrics", "/logs", "/files", "/journals", "/stream", "/wait"])
def test_an_unknown_run_is_not_found_anywhere(client, run_id, what):
    assert client.ask("GET", f"{PREFIX}/runs/{run_id}{what}").status == 404


@pytest.mark.parametrize("value", [5, True, {"a": 1}])
def test_warnings_that_are_no_list_are_refused(client, value):
    run = client.interactive_run(f"warned-{client.workspace}")
    assert client.refusal("PATCH", f"/runs/{run['id']}", {"warnings": value})["code"] == "invalid_argument"


def test_a_file_larger_than_files_can_be_is_refused(client):
    run = client.interactive_run(f"large-{client.workspace}")
    entries = [["a", client.put_blob(b"x"), 2**63, 0o644]]
    assert client.refusal("POST", f"/runs/{run['id']}/files", {"entries": entries})["code"] == "invalid_argument"
    assert client.refusal("PUT", f"/runs/{run['id']}/snapshot", {"snapshot": entries})["code"] == "invalid_argument"
