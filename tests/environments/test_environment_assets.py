"""Stored environments: their versions and labels, and the names that runs give them."""

import hashlib
import re

import pytest

from tests.wire_client import in_address

ENVIRONMENTS = "assets/environments"
AUTOSAVE = re.compile(r"Autosave_\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ_[0-9a-f]{8}")


def a_body(*packages, **more):
    return {"python": {"condaDependencies": {"dependencies": [{"pip": list(packages)}]}}, **more}


def register(client, name, *packages):
    return client.post(f"{client.here}/{ENVIRONMENTS}", {"name": name, "body": a_body(*packages, name=name)})


def labelled(client, name, label):
    return client.get(f"{client.here}/{ENVIRONMENTS}/{name}?label={label}")["version"]


@pytest.fixture
def submitted(client):
    """A run that waits for nodes for ever, so that nothing is started."""
    client.post(f"{client.here}/assets/computes", {"name": "full", "body": {"max_nodes": 1, "vm_size": "STANDARD_D2"}})
    script = client.put_blob(b"pass\n")

    def submit(run_id, environment, **definition):
        whole = {"script": "a.py", "target": "full", "environment": environment, **definition}
        body = {"run_id": f"{run_id}-{client.workspace}", "definition": whole, "snapshot": [["a.py", script, 5, 0o644]]}
        made = client.post(f"{client.here}/experiments/e/runs", body)
        client.post(f"/runs/{made['id']}/cancel")
        return made["definition"]["environment"]

    return submit


class TestLabels:
    def test_the_newest_version_is_the_latest(self, client):
        for version in (1, 2):
            assert register(client, "net", f"numpy=={version}")["version"] == version
            assert labelled(client, "net", "latest") == version

    def test_a_label_moves_from_version_to_version(self, client):
        register(client, "net", "a")
        register(client, "net", "b")
        here = f"{client.here}/{ENVIRONMENTS}/net"
        assert client.patch(f"{here}?version=1", {"labels": ["prod", "old"]})["labels"] == ["old", "prod"]
        assert labelled(client, "net", "prod") == 1
        assert client.patch(f"{here}?version=2", {"labels": ["prod"]})["labels"] == ["prod"]
        assert (labelled(client, "net", "prod"), labelled(client, "net", "old")) == (2, 1)
        assert client.patch(f"{here}?version=2", {"labels": []})["labels"] == []
        assert "old" in client.refusal("GET", f"{here}?label=prod")["problem"]

    def test_labels_are_not_tags_and_no_new_version(self, client):
        register(client, "net", "a")
        client.patch(f"{client.here}/{ENVIRONMENTS}/net", {"labels": ["prod"], "tags": {"team": "vision"}})
        again = register(client, "net", "a")
        assert (again["version"], again["labels"], again["tags"]) == (1, ["prod"], {"team": "vision"})

    @pytest.mark.parametrize("labels", [["a b"], ["a\n"], ["$(x)"], ["../x"], ["x" * 200], [7], "prod", ["a"] * 200])
    def test_a_label_that_is_none_is_refused(self, client, labels):
        register(client, "net", "a")
        refused = client.refusal("PATCH", f"{client.here}/{ENVIRONMENTS}/net", {"labels": labels})
        assert (refused["code"], "labels" in refused["problem"]) == ("invalid_argument", True)

    def test_a_label_of_an_environment_that_is_not_there(self, client):
        assert client.refusal("GET", f"{client.here}/{ENVIRONMENTS}/none?label=prod")["code"] == "not_found"


class TestNamesOfRuns:
    def test_a_registered_environment_is_named_with_its_version(self, client, submitted):
        register(client, "net", "numpy")
        register(client, "net", "pandas")
        assert submitted("old", a_body("numpy", name="net", version="1"))["version"] == "1"
        assert submitted("new", a_body("pandas", name="net"))["version"] == "2"

    def test_one_that_nobody_registered_is_kept_once_and_found_again(self, client, submitted):
        first = submitted("first", a_body("numpy", name="mine"))
        again = submitted("again", a_body("numpy", name="other"))
        assert (first["name"], again["name"]) == ("mine", "other")
        assert AUTOSAVE.fullmatch(first["version"])
        assert again["version"] == first["version"]
        kept = client.get(f"{client.here}/{ENVIRONMENTS}/{in_address(first['version'])}")
        assert kept["body"]["python"] == a_body("numpy")["python"]

    def test_one_without_a_name_gets_one(self, client, submitted):
        named = submitted("nameless", a_body("numpy"))
        assert (bool(AUTOSAVE.fullmatch(named["name"])), named["version"]) == (True, "1")

    def test_one_that_was_changed_after_it_was_registered_is_not_that(self, client, submitted):
        register(client, "net", "numpy")
        assert AUTOSAVE.fullmatch(submitted("changed", a_body("numpy==1", name="net", version="1"))["version"])

    def test_what_means_the_same_is_the_same(self, client, submitted):
        dockerfile = a_body("numpy", name="net", docker={"baseDockerfile": "FROM a", "baseImage": None})
        client.post(f"{client.here}/{ENVIRONMENTS}", {"name": "net", "body": dockerfile})
        again = a_body("numpy", name="net", docker={"baseDockerfile": "FROM a", "baseImage": "mcr/b", "shmSize": None})
        assert submitted("same", {**again, "spark": None})["version"] == "1"

    def test_one_that_was_deleted_is_kept_anew(self, client, submitted):
        first = submitted("first", a_body("numpy"))["name"]
        client.delete(f"{client.here}/{ENVIRONMENTS}/{in_address(first)}")
        again = submitted("again", a_body("numpy"))["name"]
        assert client.get(f"{client.here}/{ENVIRONMENTS}/{in_address(again)}")["version"] == 1

    def test_a_curated_one_keeps_its_name(self, submitted):
        curated = submitted("curated", a_body("numpy", name="AzureML-Minimal", version="3"))
        assert (curated["name"], curated["version"]) == ("AzureML-Minimal", "3")


class TestBuildContexts:
    def context(self, client, *files, path="Dockerfile"):
        rows = [[name, client.put_blob(text), len(text), 0o644] for name, text in files]
        return {"docker": {"buildContext": {"locationType": "storageaccount", "dockerfilePath": path, "files": rows}}}

    def register(self, client, body):
        return client.post(f"{client.here}/{ENVIRONMENTS}", {"name": "built", "body": body})

    def test_the_dockerfile_is_read_out_of_it(self, client):
        files = ("docker/Dockerfile", b"FROM debian:12\nCOPY tool /tool\n"), ("tool", b"x")
        made = self.register(client, self.context(client, *files, path="./docker/Dockerfile"))
        kept = made["body"]["docker"]["buildContext"]
        assert kept["dockerfile"] == "FROM debian:12\nCOPY tool /tool\n"
        assert [row[0] for row in kept["files"]] == ["docker/Dockerfile", "tool"]

    def test_its_blobs_are_kept(self, client):
        text = b"FROM debian:12\n# " + client.workspace.encode()
        self.register(client, self.context(client, ("Dockerfile", text)))
        client.post("/gc", {"older_than_seconds": 0})
        assert client.read(f"/blobs/{hashlib.sha256(text).hexdigest()}") == text

    def test_files_that_were_not_sent_are_named(self, client):
        missing = hashlib.sha256(b"never sent either").hexdigest()
        body = {"docker": {"buildContext": {"files": [["Dockerfile", missing, 1, 0o644]]}}}
        refused = client.refusal("POST", f"{client.here}/{ENVIRONMENTS}", {"name": "x", "body": body})
        assert (refused["code"], refused["facts"]["sha256"]) == ("blobs_missing", [missing])

    @pytest.mark.parametrize(
        ("files", "path", "said"),
        [
            ((("../Dockerfile", b"FROM a"),), "../Dockerfile", "leads out"),
            ((("/etc/Dockerfile", b"FROM a"),), "Dockerfile", "absolute"),
            ((("Dockerfile", b"FROM a"), ("Dockerfile", b"FROM b")), "Dockerfile", "twice"),
            ((("other", b"FROM a"),), "Dockerfile", "no file"),
            ((("Dockerfile", b"FROM a"),), "../../etc/passwd", "leads out"),
            ((("Dockerfile", b"hello"),), "Dockerfile", "no FROM"),
            ((("Dockerfile", b"FROM a\n" + b"#" * (1 << 20)),), "Dockerfile", "larger"),
        ],
    )
    def test_what_leads_out_of_it_or_is_no_dockerfile_is_refused(self, client, files, path, said):
        body = {"name": "x", "body": self.context(client, *files, path=path)}
        refused = client.refusal("POST", f"{client.here}/{ENVIRONMENTS}", body)
        assert refused["code"] == "invalid_argument"
        assert said in refused["problem"]
