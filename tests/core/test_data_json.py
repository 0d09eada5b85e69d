import json

from runyard.core.data_json import data_from_json, data_to_json
from runyard.core.records.data import DataForAttempt, DatasetFiles, NetworkRules, SourceFile, StoreAccess

DATA = DataForAttempt(
    datasets={
        "mnist": DatasetFiles(
            (SourceFile("a", "blobs", "x/a", 3, "e", False), SourceFile("b", "", "http://h/b", None)),
            is_one_file=False,
            folder=("blobs", "x"),
            changes=("1 file was added.",),
        )
    },
    stores={"blobs": StoreAccess("s3", "bucket/x", {"region": "r"}, {"secret_access_key": "k"})},
    network=NetworkRules(allow_private=False, variables={"https_proxy": "http://p"}, retry_seconds=3),
)


def test_data_survives_the_way_to_its_node():
    assert data_from_json(json.loads(json.dumps(data_to_json(DATA)))) == DATA


def test_a_newer_services_fields_are_ignored():
    body = json.loads(json.dumps(data_to_json(DATA)))
    body["network"]["invented"] = body["stores"]["blobs"]["invented"] = 1
    body["datasets"]["mnist"]["files"][0].append("invented")
    assert data_from_json(body) == DATA


def test_a_secret_is_not_in_the_text_of_its_access():
    assert "'k'" not in repr(DATA)
