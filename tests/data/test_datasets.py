import json

import pytest

from tests.data.http.servers import Server
from tests.wire_client import PREFIX, WireClient, in_address

BLOBS = "workspaceblobstore"


def put(client: WireClient, *paths: str, data: bytes = b"x") -> None:
    for path in paths:
        client.put(f"{client.here}/datastores/{BLOBS}/files/{in_address(path)}?overwrite=1", data)


def stored(*paths: str, steps=(), **more):
    sources = [{"datastore": BLOBS, "path": path} for path in paths]
    return {"type": "file", "sources": sources, "steps": list(steps), **more}


def save(client: WireClient, name: str, body, **more):
    return client.post(f"{client.here}/datasets", {"name": name, "body": body, **more})


def paths_of(client: WireClient, body) -> list[str]:
    resolved = client.post(f"{client.here}/datasets/resolve", {"body": body})
    return [file["path"] for file in resolved["files"]]


def resolved(client: WireClient, dataset):
    return client.post(f"{client.here}/datasets/resolve", {"id": dataset["id"]})


@pytest.fixture
def web():
    server = Server()

    def page(line, request):
        line.answer(200, b"0123456789", head_only=request.method == "HEAD", ETag='"one"')

    server.pages["/mnist/a.gz"] = server.pages["/mnist/b.gz"] = page
    yield server
    server.close()


def test_a_folder_is_saved_with_a_pin_of_what_was_there(client):
    put(client, "data/a", "data/b/c")
    made = save(client, "pets", stored("data"), tags={"k": "v"})
    assert (made["name"], made["version"], made["tags"]) == ("pets", 1, {"k": "v"})
    pin = made["body"]["pin"]
    assert (pin["files"], pin["bytes"]) == (2, 2)
    manifest = [json.loads(line) for line in client.read(f"/blobs/{pin['manifest']}").splitlines()]
    assert [(path, size, bool(etag)) for path, size, etag in manifest] == [("a", 1, True), ("b/c", 1, True)]


def test_the_same_definition_is_the_same_version(client):
    put(client, "data/a")
    first = save(client, "pets", stored("data"))
    assert save(client, "pets", stored("data"))["version"] == 1
    assert save(client, "pets", stored("data"), create_new_version=True)["id"] == first["id"]


def test_another_definition_is_a_conflict_unless_a_new_version_is_asked_for(client):
    put(client, "data/a", "other/b")
    save(client, "pets", stored("data"))
    route = f"{client.here}/datasets"
    refusal = client.refusal("POST", route, {"name": "pets", "body": stored("other")})
    assert (refusal["code"], "create_new_version=True" in refusal["hint"]) == ("already_exists", True)
    assert save(client, "pets", stored("other"), create_new_version=True)["version"] == 2
    latest = client.get(f"{client.here}/assets/datasets?latest=1")["assets"]
    assert [(one["name"], one["version"]) for one in latest] == [("pets", 2)]


def test_other_files_under_the_same_definition_make_a_new_version_when_asked_for(client):
    put(client, "data/a")
    first = save(client, "pets", stored("data"))
    put(client, "data/b")
    refusal = client.refusal("POST", f"{client.here}/datasets", {"name": "pets", "body": stored("data")})
    assert (refusal["code"], "other files" in refusal["problem"]) == ("already_exists", True)
    second = save(client, "pets", stored("data"), create_new_version=True)
    assert (second["version"], second["body"]["pin"]["files"]) == (2, 2)
    assert resolved(client, second)["changes"] == []
    assert "'b'" in resolved(client, first)["changes"][0]


def test_what_changed_since_a_version_was_made_is_told(client):
    put(client, "data/a", "data/b", "data/c")
    made = save(client, "pets", stored("data"))
    put(client, "data/b", data=b"longer")
    put(client, *(f"data/new{number}" for number in range(5)))
    client.delete(f"{client.here}/datastores/{BLOBS}/files/data/c")
    added, changed, removed = resolved(client, made)["changes"]
    assert added.startswith("5 files were added since this version was made at 20")
    assert added.endswith("'new0', 'new1', 'new2', ....")
    assert changed.startswith("1 file was changed")
    assert (changed.endswith("'b'."), removed.endswith("'c'.")) == (True, True)


def test_a_nameless_dataset_is_found_by_its_id_and_listed_nowhere(client):
    put(client, "data/a")
    made = save(client, "", stored("data"))
    assert client.get(f"{client.here}/assets/datasets/by-id/{made['id']}")["body"] == made["body"]
    assert client.get(f"{client.here}/assets/datasets")["assets"] == []
    assert save(client, "", stored("data"))["id"] == made["id"]


def test_the_manifests_of_datasets_survive_gc(client):
    put(client, "data/a", "data/b")
    pins = [save(client, name, stored("data", steps=[["take", 1]]))["body"]["pin"]["manifest"] for name in ("", "p")]
    client.post("/gc", {"older_than_seconds": 0})
    assert client.post("/blobs/missing", {"sha256": pins}) == {"missing": []}


def test_unregistering_a_dataset_leaves_its_data(client):
    put(client, "data/a")
    save(client, "pets", stored("data"))
    client.delete(f"{client.here}/assets/datasets/pets")
    assert client.refusal("GET", f"{client.here}/assets/datasets/pets")["code"] == "not_found"
    assert client.read(f"{client.here}/datastores/{BLOBS}/files/data/a") == b"x"
    assert save(client, "pets", stored("data"))["version"] == 1


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["data"], ["a.csv", "b/c.csv", "b/d.txt"]),
        (["data/"], ["a.csv", "b/c.csv", "b/d.txt"]),
        (["/data/**"], ["a.csv", "b/c.csv", "b/d.txt"]),
        (["data/*.csv"], ["a.csv"]),
        (["data/**/*.csv"], ["a.csv", "b/c.csv"]),
        (["data/b/[cx].*"], ["c.csv"]),
        (["data/?.csv"], ["a.csv"]),
        (["data/a.csv"], ["a.csv"]),
        (["d*/b"], ["data/b/c.csv", "data/b/d.txt"]),
        (["data/b", "data/a.csv"], [f"{BLOBS}/data/{name}" for name in ("a.csv", "b/c.csv", "b/d.txt")]),
        (["data/b", "data/b/*.csv"], [f"{BLOBS}/data/b/{name}" for name in ("c.csv", "d.txt")]),
    ],
)
def test_sources_mean_these_files(client, sources, expected):
    put(client, "data/a.csv", "data/b/c.csv", "data/b/d.txt", "database/x.csv")
    assert paths_of(client, stored(*sources)) == expected


def test_one_file_is_known_as_one(client):
    put(client, "data/a.csv", "data/b.csv")
    for path, is_one in (("data/a.csv", True), ("data/a.*", False), ("data", False)):
        answer = client.post(f"{client.here}/datasets/resolve", {"body": stored(path)})
        assert answer["is_one_file"] is is_one


def test_a_few_files_can_be_asked_for_to_see_that_there_are_any(client):
    put(client, *(f"data/{number}" for number in range(5)))
    asked = {"body": stored("data", "data/1"), "limit": 2}
    assert len(client.post(f"{client.here}/datasets/resolve", asked)["files"]) == 2
    asked["body"] = stored("data", steps=[["filter", ["==", ["column", "Path"], "/4"]]])
    assert len(client.post(f"{client.here}/datasets/resolve", asked)["files"]) == 1


@pytest.mark.parametrize("limit", [0, -1, 1.5, "2", True])
def test_a_limit_that_is_none_is_refused(client, limit):
    asked = {"body": {"type": "file", "sources": [{"url": "http://127.0.0.1:9/x"}]}, "limit": limit}
    assert "limit: must be" in client.refusal("POST", f"{client.here}/datasets/resolve", asked)["problem"]


def test_a_file_knows_its_store_and_key_there(client):
    put(client, "data/a.csv")
    (file,) = client.post(f"{client.here}/datasets/resolve", {"body": stored("data")})["files"]
    assert (file["store"], file["key"], file["size"]) == (BLOBS, "data/a.csv", 1)
    assert file["modified_at"].endswith("Z")


def test_steps_choose_among_the_files(client):
    put(client, *(f"data/{number}" for number in range(10)))
    assert paths_of(client, stored("data", steps=[["skip", 2], ["take", 2]])) == ["2", "3"]
    both = [paths_of(client, stored("data", steps=[["sample", 0.5, 3, keep]])) for keep in (True, False)]
    assert sorted(both[0] + both[1]) == [str(number) for number in range(10)]
    assert paths_of(client, stored("data", steps=[["filter", ["==", ["column", "Path"], "/7"]]])) == ["7"]


def test_a_table_keeps_all_its_files_whatever_its_steps_are(client):
    put(client, "data/a.csv", "data/b.csv")
    body = {**stored("data", steps=[["whatever", {"the": "sdk"}]]), "type": "tabular", "format": {"kind": "delimited"}}
    assert paths_of(client, body) == ["a.csv", "b.csv"]
    assert save(client, "t", body)["body"]["format"] == {"kind": "delimited"}


def test_web_addresses_are_looked_at_and_laid_out_as_v1_does(client, web):
    one, two = f"{web.url}/mnist/a.gz", f"{web.url}/mnist/b.gz"
    made = save(client, "mnist", {"type": "file", "sources": [{"url": one}]})
    assert made["body"]["pin"] == {**made["body"]["pin"], "files": 1, "bytes": 10}
    answer = resolved(client, made)
    assert ([file["path"] for file in answer["files"]], answer["is_one_file"]) == (["a.gz"], True)
    several = {"type": "file", "sources": [{"url": one}, {"url": two}, {"url": one}]}
    host = f"http%3A/%2F127.0.0.1%3A{web.port}/mnist"
    assert paths_of(client, several) == [f"{host}/a.gz", f"{host}/b.gz"]


def test_a_web_source_that_changed_is_told(client, web):
    made = save(client, "mnist", {"type": "file", "sources": [{"url": f"{web.url}/mnist/a.gz"}]})
    web.pages["/mnist/a.gz"] = lambda line, request: line.answer(
        200, b"0123456789", head_only=request.method == "HEAD", ETag='"two"'
    )
    assert "1 file was changed" in resolved(client, made)["changes"][0]


@pytest.mark.parametrize(("status", "code"), [(404, "not_found"), (403, "access_denied")])
def test_an_address_that_answers_an_error_is_refused_without_its_query(client, web, status, code):
    web.pages["/gone"] = lambda line, request: line.answer(status)
    body = {"type": "file", "sources": [{"url": f"{web.url}/gone?sig=SECRET"}]}
    refusal = client.refusal("POST", f"{client.here}/datasets", {"name": "x", "body": body})
    assert (refusal["code"], "/gone" in refusal["problem"]) == (code, True)
    assert "SECRET" not in json.dumps(refusal)


def test_what_is_not_to_be_validated_is_not_asked_for(client):
    body = {"type": "file", "sources": [{"url": "http://127.0.0.1:9/never"}]}
    made = save(client, "later", body, validate=False)
    assert "pin" not in made["body"]


def test_nothing_at_a_path_is_told_with_the_datastore(client):
    refusal = client.refusal("POST", f"{client.here}/datasets", {"name": "x", "body": stored("no/such/*.csv")})
    assert refusal["code"] == "not_found"
    assert "'no/such/*.csv'" in refusal["problem"]
    assert BLOBS in refusal["problem"]


def test_files_of_a_saved_dataset_are_read_in_parts(client):
    put(client, "data/a b/ü.bin", data=bytes(range(256)))
    made = save(client, "pets", stored("data"))
    route = f"{client.here}/datasets/by-id/{made['id']}/files/{in_address('a b/ü.bin')}"
    assert client.read(route) == bytes(range(256))
    part = client.ask("GET", PREFIX + route, range="bytes=10-19")
    assert (part.status, part.body) == (206, bytes(range(10, 20)))
    assert part.headers["content-range"] == "bytes 10-19/256"
    assert client.ask("GET", PREFIX + route, range="bytes=-3").body == bytes((253, 254, 255))
    assert client.ask("GET", PREFIX + route, range="bytes=256-").status == 416
    assert client.ask("GET", PREFIX + route, range="bytes=5-2").body == bytes(range(256))
    assert client.ask("GET", PREFIX + route, range="lines=1-2").status == 200


def test_a_large_file_is_sent_in_pieces(client):
    data = bytes(range(256)) * 40_000
    put(client, "data/large", data=data)
    made = save(client, "pets", stored("data"))
    route = f"{client.here}/datasets/by-id/{made['id']}/files/large"
    assert client.read(route) == data
    assert client.ask("GET", PREFIX + route, range="bytes=100-9000000").body == data[100:9_000_001]


def test_a_file_of_the_web_is_read_through_the_service(client, web):
    made = save(client, "mnist", {"type": "file", "sources": [{"url": f"{web.url}/mnist/a.gz"}]})
    route = f"{client.here}/datasets/by-id/{made['id']}/files"
    assert client.read(f"{route}/a.gz") == b"0123456789"
    assert client.ask("GET", f"{PREFIX}{route}/a.gz", range="bytes=2-3").body == b"23"


def test_a_file_that_appeared_or_changed_after_a_listing_is_read_as_it_is(client):
    put(client, "data/a")
    made = save(client, "pets", stored("data"))
    route = f"{client.here}/datasets/by-id/{made['id']}/files"
    assert client.read(f"{route}/a") == b"x"
    put(client, "data/a", data=b"other")
    put(client, "data/b", data=b"new")
    assert (client.read(f"{route}/a"), client.read(f"{route}/b")) == (b"other", b"new")


@pytest.mark.parametrize("path", ["none", "..%2fa", "%2fetc%2fpasswd", "a%00", "b%2f..%2fa", "x" * 5000])
def test_a_path_that_no_file_has_is_not_found(client, path):
    put(client, "data/a", "secret")
    made = save(client, "pets", stored("data"))
    answer = client.ask("GET", f"{PREFIX}{client.here}/datasets/by-id/{made['id']}/files/{path}")
    assert answer.status == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"sources": []},
        {"sources": "x"},
        {"sources": ["x"]},
        {"sources": [{}]},
        {"sources": [{"url": 7}]},
        *(
            {"sources": [{"url": url}]}
            for url in ("file:///etc/passwd", "ftp://x/y", "http://", "http://a b/c", "x", "")
        ),
        {"sources": [{"url": "http://[broken/"}]},
        {"sources": [{"url": "http://h:99999999/"}]},
        {"sources": [{"url": "http://h/" + "x" * 9000}]},
        {"sources": [{"url": "http://h/x"}, {"datastore": BLOBS, "path": "a"}]},
        {"sources": [{"datastore": "a/b", "path": "x"}]},
        {"sources": [{"datastore": BLOBS, "path": "../x"}]},
        {"sources": [{"datastore": BLOBS, "path": "a\0b"}]},
        {"sources": [{"datastore": BLOBS, "path": "x" * 5000}]},
        {"sources": [{"datastore": BLOBS, "path": 7}]},
        {"sources": [{"datastore": BLOBS, "path": "a"}] * 20_001},
        {"type": "cube", "sources": [{"datastore": BLOBS, "path": "a"}]},
        {"type": "file", "sources": [{"datastore": BLOBS, "path": "a"}], "steps": [["jump"]]},
        {"type": "file", "sources": [{"datastore": BLOBS, "path": "a"}], "steps": 7},
        {"type": "file", "sources": [{"datastore": BLOBS, "path": "a"}], "colour": "red"},
        {"type": "tabular", "sources": [{"datastore": BLOBS, "path": "a"}], "format": 7},
        {"type": "file", "sources": [{"datastore": BLOBS, "path": "[z-a]"}]},
    ],
)
def test_what_is_no_dataset_is_refused(client, body):
    for route in ("datasets", "datasets/resolve"):
        refusal = client.refusal("POST", f"{client.here}/{route}", {"name": "x", "body": body})
        assert refusal["code"] == "invalid_argument", refusal


def test_an_address_with_a_password_is_refused_without_telling_it(client):
    body = {"type": "file", "sources": [{"url": "http://me:secret@h/x"}]}
    refusal = client.refusal("POST", f"{client.here}/datasets", {"name": "x", "body": body})
    assert "password" in refusal["problem"]
    assert "secret" not in json.dumps(refusal)


@pytest.mark.parametrize("name", ["a/b", "..", "x" * 300, "a\nb", "a\0"])
def test_a_name_that_is_none_is_refused(client, name):
    put(client, "data/a")
    refusal = client.refusal("POST", f"{client.here}/datasets", {"name": name, "body": stored("data")})
    assert refusal["code"] == "invalid_argument"


def test_a_name_may_hold_spaces_and_any_letters(client):
    put(client, "data/a")
    name = "mnist dataset ünd 数"
    assert save(client, name, stored("data"))["name"] == name
    assert client.get(f"{client.here}/assets/datasets/{in_address(name)}")["version"] == 1


def test_an_unknown_datastore_is_named(client):
    body = {"type": "file", "sources": [{"datastore": "nowhere", "path": ""}]}
    refusal = client.refusal("POST", f"{client.here}/datasets", {"name": "x", "body": body})
    assert (refusal["code"], "'nowhere'" in refusal["problem"]) == ("not_found", True)


def test_what_a_version_is_made_of_cannot_be_changed(client):
    put(client, "data/a", "data/b")
    made = save(client, "pets", stored("data"))
    route = f"{client.here}/assets/datasets/pets?version=1"
    changed = client.patch(route, {"body": {"description": "dogs"}, "tags": {"k": "v"}})
    assert (changed["body"]["description"], changed["tags"]) == ("dogs", {"k": "v"})
    assert changed["body"]["pin"] == made["body"]["pin"]
    for change in (
        {"sources": stored("data/a")["sources"]},
        {"pin": {}},
        {"steps": [["take", 1]]},
        {"type": "tabular"},
    ):
        assert client.refusal("PATCH", route, {"body": change})["code"] == "invalid_argument"
    assert client.refusal("POST", f"{client.here}/assets/datasets", {"name": "x", "body": {}})["status"] == 400


def test_a_dataset_of_another_workspace_is_not_found(client):
    put(client, "data/a")
    made = save(client, "pets", stored("data"))
    client.put("/workspaces/elsewhere", {"exist_ok": True})
    for below in ("files/a", "lineage", "access"):
        route = f"/workspaces/elsewhere/datasets/by-id/{made['id']}/{below}"
        assert client.refusal("GET", route)["code"] == "not_found"


@pytest.mark.parametrize("header", ["{", "[1]", '{"http_proxy": []}', "[" * 5000])
def test_a_network_header_that_is_no_object_of_strings_is_refused(client, header):
    address = f"/api/v1{client.here}/datasets/by-id/none/files/x"
    assert client.ask("GET", address, **{"X-Runyard-Network": header}).status == 400
