import os
import tempfile
import unittest

from azureml.core.dataset import Dataset
from azureml.data._file_layout import matching, stored_path, web_path
from azureml.data.azure_storage_datastore import AzureBlobDatastore, AzureFileDatastore
from azureml.data.data_reference import DataReference
from azureml.data.datapath import DataPath
from azureml.exceptions import UserErrorException

STORE = AzureBlobDatastore(None, "store", "c", "a")


class FileDatasets(unittest.TestCase):
    def test_one_address_lies_at_its_file_name(self):
        self.assertEqual(Dataset.File.from_files("http://host/exdb/mnist/x.gz").to_path(), ["/x.gz"])

    def test_several_addresses_keep_scheme_and_host(self):
        made = Dataset.File.from_files(["http://host:8080/exdb/x.gz", "https://other/y"])
        self.assertEqual(made.to_path(), ["/http%3A/%2Fhost%3A8080/exdb/x.gz", "/https%3A/%2Fother/y"])

    def test_an_address_cannot_leave_the_root(self):
        paths = [web_path(["a", "b"], url) for url in ("http://h/../../x", "http://u:p@h/..", "http://h/a?b=/../c")]
        for path in paths:
            self.assertNotIn("..", path.split("/"))
            self.assertNotIn("u:p", path)

    def test_unregistered_it_has_no_id_name_or_version(self):
        made = Dataset.File.from_files("http://host/a")
        self.assertEqual((made.id, made.name, made.version), (None, None, None))

    def test_datastore_items_of_every_form_mean_the_same(self):
        forms = [(STORE, "a/b"), DataPath(STORE, "a/b"), DataReference(STORE, "n", "a/b"), STORE.path("a/b")]
        self.assertEqual([Dataset.File.from_files(form)._sources for form in forms],
                         [[{"datastore": "store", "path": "a/b"}]] * 4)

    def test_what_cannot_be_a_source_is_refused(self):
        for path in ("/home/me/data", "data.csv", "ftp://host/x", "http://", "http://h/a b", 5, [], None, [STORE]):
            with self.assertRaisesRegex(UserErrorException, "path must be"):
                Dataset.File.from_files(path)
        with self.assertRaisesRegex(UserErrorException, "not both"):
            Dataset.File.from_files(["http://host/x", (STORE, "a")])
        with self.assertRaisesRegex(UserErrorException, "below the datastore's root"):
            Dataset.File.from_files((STORE, "../a"))

    def test_globs_match_as_the_service_does(self):
        names = ["a/x.gz", "a/b/y.gz", "a/b/z.txt", "c.gz"]
        for pattern, expected in (("a", names[:3]), ("a/*", names[:3]), ("a/*.gz", names[:1]), ("**/*.gz",
                                  ["a/x.gz", "a/b/y.gz", "c.gz"]), ("a/**", names[:3]), ("*", names),
                                  ("a/b/[yz].*", names[1:3]), ("a/x.gz", names[:1]), ("", names), ("a/?.gz", names[:1])):
            self.assertEqual(matching(names, pattern), expected, pattern)

    def test_files_of_one_source_lie_below_its_fixed_part(self):
        self.assertEqual(stored_path(True, "s", "a/**/*.gz", "a/b/y.gz"), "b/y.gz")
        self.assertEqual(stored_path(True, "s", "a/x.gz", "a/x.gz"), "x.gz")
        self.assertEqual(stored_path(False, "s", "a", "a/x.gz"), "s/a/x.gz")

    def test_input_names_become_variables(self):
        made = Dataset.File.from_files("http://host/a")
        self.assertEqual(str(made.as_named_input("mnist").as_mount()), "DatasetConsumptionConfig:mnist")
        self.assertRegex(made.as_mount().name, "^input__[0-9a-f]{8}$")
        for name in ("1a", "a-b", "a b", "", None, "a\n"):
            with self.assertRaisesRegex(UserErrorException, "input or output name"):
                made.as_named_input(name)

    def test_later_kinds_of_data_say_so(self):
        for call in (lambda: Dataset.Tabular.from_delimited_files("http://host/a.csv"),
                     lambda: Dataset.File.from_files("http://host/a").take(1)):
            with self.assertRaisesRegex(UserErrorException, "part 2 of 5"):
                call()


class References(unittest.TestCase):
    def test_the_root_is_named_after_the_datastore_and_a_sub_path_at_random(self):
        self.assertEqual(str(STORE.as_mount()), "$AZUREML_DATAREFERENCE_store")
        self.assertRegex(str(STORE.path("x").as_download()), r"^\$AZUREML_DATAREFERENCE_[0-9a-f]{32}$")

    def test_a_path_goes_deeper(self):
        self.assertEqual(STORE.path("a").path("b/").path_on_datastore, "a/b")

    def test_wrong_names_modes_and_paths_are_refused(self):
        for settings in ({"data_reference_name": "a b"}, {"mode": "copy"}, {"path_on_datastore": "a/../../b"}):
            with self.assertRaises(UserErrorException):
                DataReference(STORE, **settings)


class UploadArguments(unittest.TestCase):
    def test_what_is_not_there_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(UserErrorException, "src_dir"):
                STORE.upload(os.path.join(folder, "absent"))
            with self.assertRaisesRegex(UserErrorException, "which is not a file"):
                STORE.upload_files([folder])
        with self.assertRaisesRegex(UserErrorException, "files must be a list"):
            AzureFileDatastore(None, "f", "c", "a").upload_files("a.txt")


if __name__ == "__main__":
    unittest.main()
