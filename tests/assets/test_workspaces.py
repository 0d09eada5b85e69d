import pytest


def test_a_workspace_comes_with_two_datastores(client):
    stores = client.get(f"{client.here}/assets/datastores")["assets"]
    defaults = {store["name"]: store["body"]["is_default"] for store in stores}
    assert defaults == {"workspaceblobstore": True, "workspacefilestore": False}


def test_making_it_twice_is_an_error_unless_that_is_fine(client):
    again = client.put(client.here, {"exist_ok": True})
    assert again == client.get(client.here)
    assert client.refusal("PUT", client.here, {})["code"] == "already_exists"


def test_an_unknown_one_is_named_with_those_that_are_known(client):
    refused = client.refusal("GET", "/workspaces/nowhere")
    assert refused["code"] == "not_found"
    assert "'nowhere'" in refused["problem"]


@pytest.mark.parametrize("name", ["ab", "-abc", "a" * 34, "a.b.c", "a%00b", "..%2fx", "a%20b"])
def test_a_name_that_breaks_the_rules_is_refused(client, name):
    answer = client.ask("PUT", f"/api/v1/workspaces/{name}", {"exist_ok": True})
    assert answer.status in (400, 404)


def test_it_cannot_be_deleted_while_a_run_goes_on(client):
    client.interactive_run("holds-workspace")
    assert client.refusal("DELETE", client.here)["code"] == "conflict"
    client.patch("/runs/holds-workspace", {"status": "Completed"})
    client.delete(client.here)
    assert client.refusal("GET", client.here)["code"] == "not_found"


def test_experiments_are_made_once_and_can_be_described(client):
    first = client.put(f"{client.here}/experiments/mnist")
    assert client.put(f"{client.here}/experiments/mnist")["id"] == first["id"]
    client.patch(f"{client.here}/experiments/mnist", {"tags": {"a": "1", "b": "2"}, "description": "digits"})
    changed = client.patch(f"{client.here}/experiments/mnist", {"tags": {"a": None}, "archived": True})
    assert (changed["tags"], changed["description"]) == ({"b": "2"}, "digits")
    assert changed["archived_at"].endswith("Z")
    assert [one["name"] for one in client.get(f"{client.here}/experiments")["experiments"]] == ["mnist"]


@pytest.mark.parametrize("name", ["-x", "a%2F..%2Fb", "a" * 256, "a%0Ab"])
def test_an_experiment_name_that_breaks_the_rules_is_refused(client, name):
    assert client.ask("PUT", f"/api/v1{client.here}/experiments/{name}").status in (400, 404)
