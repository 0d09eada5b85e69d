import os
import tempfile
import unittest

from azureml.core import Datastore
from azureml.data._datastore_kinds import datastore_of
from azureml.data._datastore_files import _files_below, _matching, _placed
from azureml.exceptions import UserErrorException


class Recording(object):
    """A workspace whose service takes every registration, and gives credentials when asked."""

    name = "w"

    def __init__(self):
        self._client, self.posted, self.asked = self, [], []

    def _path(self, *parts):
        return "/".join(parts)

    def post(self, path, body):
        self.posted.append((path, body))
        kinds = {"azure_blob": "AzureBlob", "azure_data_lake_gen2": "AzureDataLakeGen2"}
        return asset(body["name"], body["kind"], body["settings"], kinds.get(body["kind"]),
                     "AccountKey" if body["credentials"] else "None")

    def get(self, path):
        self.asked.append(path)
        return {"account_key": "key"}


def asset(name, kind, settings, v1_type, credential_type):
    return {"name": name, "body": {"kind": kind, "settings": settings, "v1_type": v1_type,
                                   "credential_type": credential_type}}


class Registering(unittest.TestCase):
    def setUp(self):
        self.workspace = Recording()

    def body(self):
        return self.workspace.posted[-1][1]

    def test_a_blob_container_keeps_its_key_apart_from_its_settings(self):
        made = Datastore.register_azure_blob_container(self.workspace, "images", "c", "account", account_key="key",
                                                       create_if_not_exists=True)
        self.assertEqual(self.body()["settings"], {"account_name": "account", "container_name": "c"})
        self.assertEqual(self.body()["credentials"], {"account_key": "key"})
        self.assertEqual((made.container_name, made.account_name, made.datastore_type), ("c", "account", "AzureBlob"))
        self.assertEqual((made.protocol, made.endpoint), ("https", "core.windows.net"))
        self.assertTrue(self.body()["create_if_not_exists"])

    def test_a_token_is_given_without_its_question_mark(self):
        Datastore.register_azure_blob_container(self.workspace, "images", "c", "account", sas_token="?sv=1&sig=x")
        self.assertEqual(self.body()["credentials"], {"sas_token": "sv=1&sig=x"})

    def test_a_key_is_asked_from_the_service_when_it_is_used(self):
        made = Datastore.register_azure_blob_container(self.workspace, "images", "c", "account", account_key="key")
        self.assertEqual(self.workspace.asked, [])
        self.assertEqual([made.account_key, made.account_key, made.sas_token], ["key", "key", None])
        self.assertEqual(self.workspace.asked, ["datastores/images/credentials"])
        self.assertNotIn("key", repr(made))

    def test_a_public_container_has_no_key_to_ask_for(self):
        made = Datastore.register_azure_blob_container(self.workspace, "images", "c", "account")
        self.assertEqual((made.account_key, made.credential_type, self.workspace.asked), (None, "None", []))

    def test_a_data_lake_takes_a_whole_principal_or_none(self):
        made = Datastore.register_azure_data_lake_gen2(self.workspace, "lake", "fs", "account", "t", "c", "s")
        self.assertEqual((made.container_name, made.tenant_id), ("fs", "t"))
        self.assertEqual(self.body()["credentials"], {"client_secret": "s"})
        with self.assertRaisesRegex(UserErrorException, "client_secret is missing"):
            Datastore.register_azure_data_lake_gen2(self.workspace, "lake", "fs", "account", "t", "c")

    def test_buckets_folders_and_addresses_are_registered_too(self):
        bucket = Datastore.register_s3_bucket(self.workspace, "b", "bucket", prefix="/a/b/", access_key_id="i",
                                              secret_access_key="s")
        self.assertEqual((bucket.bucket, bucket.prefix, bucket.datastore_type), ("bucket", "a/b", "S3"))
        Datastore.register_google_cloud_storage(self.workspace, "g", "bucket", service_account_key={"type": "x"})
        self.assertEqual(self.body()["credentials"], {"service_account_key": '{"type": "x"}'})
        folder = Datastore.register_folder(self.workspace, "f", "~/data")
        self.assertEqual(folder.folder, os.path.join(os.path.expanduser("~"), "data"))
        self.assertEqual(Datastore.register_web(self.workspace, "w", "http://host/x").address, "http://host/x")

    def test_what_cannot_be_reached_is_refused_with_what_to_do(self):
        for call, said in (
                (lambda: Datastore.register_azure_file_share(None, "d", "s", "a"), "register_folder"),
                (lambda: Datastore.register_azure_data_lake(None, "d", "s"), "register_azure_data_lake_gen2"),
                (lambda: Datastore.register_azure_sql_database(None, "d", "s", "b"), "pandas.read_sql"),
                (lambda: Datastore.register_azure_postgre_sql(None, "d", "s", "b", "u", "p"), "pandas.read_sql"),
                (lambda: Datastore.register_azure_my_sql(None, "d", "s", "b", "u", "p"), "pandas.read_sql"),
                (lambda: Datastore.register_dbfs(None, "d"), "register_s3_bucket"),
                (lambda: Datastore.register_hdfs(None, "d", "p", "n", "c", "r", "k", "p"), "register_folder")):
            with self.assertRaisesRegex(UserErrorException, said):
                call()

    def test_a_kind_of_a_newer_service_is_named(self):
        with self.assertRaisesRegex(UserErrorException, "of kind 'tape'.*Upgrade"):
            datastore_of(self.workspace, asset("t", "tape", {}, None, "None"))


class FilesToUpload(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.makedirs(os.path.join(self.root, "a", "b"))
        for name in ("x.csv", "a/y.csv", "a/b/z.txt"):
            open(os.path.join(self.root, name), "w").close()

    def relative(self, paths):
        return [os.path.relpath(path, self.root) for path in paths]

    def test_links_are_followed_and_loops_are_not(self):
        os.symlink(self.root, os.path.join(self.root, "a", "loop"))
        os.symlink(os.path.join(self.root, "a"), os.path.join(self.root, "other"))
        found = self.relative(_files_below(self.root))
        self.assertEqual([name for name in found if "loop" not in name],
                         ["x.csv", "a/y.csv", "a/b/z.txt", "other/y.csv", "other/b/z.txt"])
        self.assertFalse([name for name in found if name.count("loop") > 1])

    def test_a_pattern_chooses_files(self):
        self.assertEqual(self.relative(_matching(self.root, "**/*.csv")), ["a/y.csv", "x.csv"])
        self.assertEqual(self.relative(_matching(self.root, "*")), ["x.csv"])
        for pattern in ("/etc/*", "../*", 5):
            with self.assertRaisesRegex(UserErrorException, "pattern must be"):
                _matching(self.root, pattern)

    def test_names_stay_below_the_root_and_are_text(self):
        with self.assertRaisesRegex(UserErrorException, "outside of relative_root"):
            _placed(os.path.join(self.root, "x.csv"), os.path.join(self.root, "a", ""), None)
        with self.assertRaisesRegex(UserErrorException, "not UTF-8"):
            _placed(os.path.join(self.root, os.fsdecode(b"\xff.csv")), os.path.join(self.root, ""), None)


if __name__ == "__main__":
    unittest.main()
