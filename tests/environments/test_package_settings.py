"""Where a workspace takes its packages from."""

import pytest

from tests.attempts import node_of, script_of

INDEX = "https://ada:s3cr3t@packages.example/simple"
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def settings(client, **changes):
    return client.put(f"{client.here}/packages", changes)


def test_settings_are_merged_and_a_null_puts_one_back(client):
    before = client.get(f"{client.here}/packages")
    settings(client, offline=True, find_links=["/wheels"], conda="never")
    changed = settings(client, conda=None, without_engine="virtual-environment")
    assert changed == {**before, "offline": True, "find_links": ["/wheels"], "without_engine": "virtual-environment"}
    assert client.get(f"{client.here}/packages") == changed


def test_passwords_are_told_to_nodes_alone(client, service):
    shown = settings(client, index_url=INDEX, extra_index_urls=[INDEX], conda_channels={"conda-forge": INDEX})
    hidden = "https://ada:****@packages.example/simple"
    assert (shown["index_url"], shown["extra_index_urls"]) == (hidden, [hidden])
    assert shown["conda_channels"] == {"conda-forge": hidden}
    run_id = f"build-{client.workspace}"
    client.interactive_run(run_id)
    told = node_of(client, run_id).get(f"/attempts/{run_id}.1/packages")
    assert told["settings"]["index_url"] == INDEX
    assert told["settings"]["conda_channels"] == {"conda-forge": INDEX}


def test_what_was_shown_can_be_sent_back(client):
    shown = settings(client, index_url=INDEX, find_links=["/a", INDEX])
    settings(client, **{**shown, "find_links": [*shown["find_links"], "/b"]})
    run_id = f"back-{client.workspace}"
    client.interactive_run(run_id)
    told = node_of(client, run_id).get(f"/attempts/{run_id}.1/packages")["settings"]
    assert (told["index_url"], told["find_links"]) == (INDEX, ["/a", INDEX, "/b"])


def test_a_script_reads_the_settings_and_does_not_change_them(client):
    run_id = f"reads-{client.workspace}"
    client.interactive_run(run_id)
    script = script_of(client, run_id)
    assert script.get(f"{client.here}/packages")["offline"] is False
    assert script.refusal("PUT", f"{client.here}/packages", {"offline": True})["status"] == 403


def test_settings_of_one_workspace_are_not_those_of_another(client):
    settings(client, offline=True)
    client.put("/workspaces/elsewhere", {"exist_ok": True})
    assert client.get("/workspaces/elsewhere/packages")["offline"] is False


def test_a_workspace_made_again_begins_anew(client):
    settings(client, offline=True)
    assert client.get(f"{client.here}/packages")["offline"] is True
    client.delete(client.here)
    client.put(client.here, {"exist_ok": True})
    assert client.get(f"{client.here}/packages")["offline"] is False


@pytest.mark.parametrize(
    "changes",
    [
        {"index": "https://x"},
        {"index_url": "packages.example"},
        {"index_url": "ftp://packages.example"},
        {"index_url": "https://x --extra"},
        {"index_url": "https://x\nhttps://y"},
        {"index_url": "https://[::1"},
        {"index_url": 7},
        {"index_url": "https://" + "x" * 5000},
        {"extra_index_urls": "https://x"},
        {"extra_index_urls": ["https://x"] * 200},
        {"find_links": ["relative/folder"]},
        {"find_links": ["/a b"]},
        {"trusted_hosts": ["https://x"]},
        {"trusted_hosts": ["$(x)"]},
        {"ca_bundle": "/etc/ssl/certs/ca.pem"},
        {"ca_bundle": PEM + "-----BEGIN PRIVATE KEY-----\n"},
        {"offline": "yes"},
        {"conda": "sometimes"},
        {"conda_channels": ["x"]},
        {"conda_channels": {"a b": "https://x"}},
        {"conda_channels": {"a": "nowhere"}},
        {"without_engine": "hope"},
        {"python_downloads": True},
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(client, changes):
    refused = client.refusal("PUT", f"{client.here}/packages", {"offline": True, **changes})
    assert refused["code"] == "invalid_argument"
    assert next(iter(changes)) in refused["problem"]
    assert client.get(f"{client.here}/packages")["offline"] is False


def test_a_refused_address_does_not_show_its_password(client):
    refused = client.refusal("PUT", f"{client.here}/packages", {"index_url": "gopher://ada:s3cr3t@x"})
    assert "s3cr3t" not in refused["problem"]


def test_certificates_are_kept_as_they_are(client):
    assert settings(client, ca_bundle=PEM)["ca_bundle"] == PEM
