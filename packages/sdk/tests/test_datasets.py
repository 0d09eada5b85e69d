import os
import tempfile
import unittest

from azureml._run_definition import Inputs, from_list
from azureml.core.dataset import Dataset
from azureml.data.azure_storage_datastore import AzureBlobDatastore, AzureFileDatastore
from azureml.data.data_reference import DataReference
from azureml.data.datapath import DataPath
from azureml.exceptions import UserErrorException

STORE = AzureBlobDatastore(None, "store", "c", "a")


def web(*addresses):
    return Dataset.File.from_files(list(addresses), validate=False)


class FileDatasets(unittest.TestCase):
    def test_unregistered_it_has_no_id_name_or_version(self):
        made = web("http://host/a")
        self.assertEqual((made.id, made.name, made.version), (None, None, None))

    def test_datastore_items_of_every_form_mean_the_same(self):
        forms = [(STORE, "a/b"), DataPath(STORE, "a/b"), DataReference(STORE, "n", "a/b"), STORE.path("a/b")]
        self.assertEqual([Dataset.File.from_files(form, validate=False)._sources for form in forms],
                         [[{"datastore": "store", "path": "a/b"}]] * 4)

    def test_what_cannot_be_a_source_is_refused(self):
        for path in ("/home/me/data", "data.csv", "ftp://host/x", "http://", "http://h/a b", 5, [], None, [STORE],
                     (STORE, ["a", "b"]), (STORE, 5), DataPath(None, "a")):
            with self.assertRaisesRegex(UserErrorException, "path must be"):
                Dataset.File.from_files(path)
        with self.assertRaisesRegex(UserErrorException, "not both"):
            Dataset.File.from_files(["http://host/x", (STORE, "a")])
        with self.assertRaisesRegex(UserErrorException, "below the datastore's root"):
            Dataset.File.from_files((STORE, "../a"))

    def test_input_names_become_variables(self):
        made = web("http://host/a")
        self.assertEqual(str(made.as_named_input("mnist").as_mount()), "DatasetConsumptionConfig:mnist")
        self.assertRegex(made.as_mount().name, "^input__[0-9a-f]{8}$")
        for name in ("1a", "a-b", "a b", "", None, "a\n"):
            with self.assertRaisesRegex(UserErrorException, "input or output name"):
                made.as_named_input(name)

    def test_two_inputs_of_one_name_are_refused_unless_they_are_the_same(self):
        inputs, made = Inputs(), web("http://host/a")
        from_list([made.as_named_input("x").as_mount(), made.as_named_input("x").as_mount()], inputs)
        for other in (made.as_named_input("x"), web("http://host/b").as_named_input("x").as_mount()):
            with self.assertRaisesRegex(UserErrorException, "Two inputs of the run are called 'x'"):
                from_list([other], inputs)

    def test_hdfs_is_refused_with_what_to_use(self):
        for made in (web("http://host/a"), web("http://host/a").as_named_input("x")):
            with self.assertRaisesRegex(UserErrorException, r"as_mount\(\) or as_download\(\)"):
                made.as_hdfs()


class Selections(unittest.TestCase):
    def test_steps_follow_one_another_and_leave_the_dataset_as_it_was(self):
        made = web("http://host/a", "http://host/b")
        chosen = made.skip(1).take(2)
        self.assertEqual((made._steps, chosen._steps), ([], [["skip", 1], ["take", 2]]))
        self.assertEqual((chosen.id, chosen._body()["sources"]), (None, made._sources))

    def test_the_halves_of_a_split_share_one_draw(self):
        first, second = web("http://host/a").random_split(0.8)
        ((_, share, seed, _),), ((_, other_share, other_seed, _),) = first._steps, second._steps
        self.assertEqual((share, seed), (other_share, other_seed))
        self.assertEqual([first._steps[0][3], second._steps[0][3]], [True, False])
        self.assertEqual(web("http://host/a").take_sample(0.5, seed=7)._steps, [["sample", 0.5, 7, True]])

    def test_conditions_on_files_are_kept_as_the_service_reads_them(self):
        made = web("http://host/a")
        kept = made.filter((made.file_metadata("Size") > 1024) & made["Path"].endswith(".gz"))
        self.assertEqual(kept._steps, [["filter", ["and", [">", ["column", "Size"], 1024],
                                                   ["endswith", ["column", "Path"], ".gz"]]]])

    def test_wrong_counts_shares_and_columns_are_named(self):
        made = web("http://host/a")
        for call, said in ((lambda: made.take(-1), "count"), (lambda: made.skip("2"), "count"),
                           (lambda: made.take_sample(2), "probability"), (lambda: made.random_split(-0.1), "percentage"),
                           (lambda: made.random_split(0.5, seed="x"), "seed"), (lambda: made.filter(True), "expression"),
                           (lambda: made.file_metadata("Owner"), "col must be one of 'Path'"),
                           (lambda: made.filter(made["Owner"] == 1), "the column 'Owner'")):
            with self.assertRaisesRegex(UserErrorException, said):
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
