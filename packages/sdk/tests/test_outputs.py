import unittest

from azureml._run_definition import Inputs, from_list
from azureml.core.runconfig import GlobsOptions, OutputData, OutputOptions, RunConfiguration, UploadOptions
from azureml.data import HDFSOutputDatasetConfig, LinkFileOutputDatasetConfig, OutputFileDatasetConfig
from azureml.data.azure_storage_datastore import AzureBlobDatastore
from azureml.exceptions import UserErrorException

STORE = AzureBlobDatastore(None, "store", "c", "a")


class Outputs(unittest.TestCase):
    def test_by_default_the_service_chooses_where_it_lies(self):
        made = OutputFileDatasetConfig("result")._to_definition(None)
        self.assertEqual(made["outputLocation"], {"dataPath": {"datastoreName": None, "relativePath": None}})
        self.assertEqual((made["mechanism"], made["environmentVariableName"]), ("Mount", "result"))
        self.assertEqual(made["additionalOptions"], {"registrationOptions": None, "uploadOptions": None})

    def test_a_destination_an_upload_and_a_registration_are_told(self):
        made = OutputFileDatasetConfig("result", (STORE, "out/{run-id}"), source="here").as_upload(
            overwrite=True, source_globs=["**/*.csv"]).register_on_complete("table", "d", {"k": 1})._to_definition(None)
        self.assertEqual(made["outputLocation"],
                         {"dataPath": {"datastoreName": "store", "relativePath": "out/{run-id}"}})
        self.assertEqual((made["mechanism"], made["pathOnCompute"]), ("Upload", "here"))
        self.assertEqual(made["additionalOptions"], {
            "registrationOptions": {"name": "table", "description": "d", "tags": {"k": "1"},
                                    "datasetRegistrationOptions": {"additionalTransformation": None}},
            "uploadOptions": {"overwrite": True, "sourceGlobs": ["**/*.csv"]}})

    def test_an_output_read_as_a_table_says_so_in_its_registration(self):
        output = OutputFileDatasetConfig("result").read_delimited_files().register_on_complete("table")
        wanted = output._to_definition(None)["additionalOptions"]["registrationOptions"]
        self.assertEqual(wanted["name"], "table")
        self.assertTrue(wanted["datasetRegistrationOptions"]["additionalTransformation"])

    def test_a_table_that_is_not_registered_asks_for_no_registration(self):
        made = OutputFileDatasetConfig("result").read_delimited_files()._to_definition(None)
        self.assertIsNone(made["additionalOptions"]["registrationOptions"])

    def test_as_an_argument_it_leaves_its_placeholder(self):
        inputs = Inputs()
        output = OutputFileDatasetConfig("result")
        self.assertEqual(from_list(["--out", output], inputs), ["--out", "DatasetOutputConfig:result"])
        self.assertEqual(inputs.outputs, {"result": output})
        with self.assertRaisesRegex(UserErrorException, "Two outputs of the run are called 'result'"):
            from_list([OutputFileDatasetConfig("result")], inputs)

    def test_a_link_has_no_place(self):
        made = LinkFileOutputDatasetConfig("linked").register_on_complete("n")._to_definition(None)
        self.assertEqual((made["mechanism"], made["outputLocation"]), ("Link", None))

    def test_outputs_put_into_a_run_configuration_are_told_alike(self):
        from azureml._run_definition import _output_object
        options = OutputOptions(path_on_compute="here", upload_options=UploadOptions(True, GlobsOptions(["*.x"])))
        made = _output_object("o", OutputData(mechanism="upload", additional_options=options), None)
        self.assertEqual((made["mechanism"], made["pathOnCompute"]), ("Upload", "here"))
        self.assertEqual(made["additionalOptions"]["uploadOptions"], {"overwrite": True, "sourceGlobs": ["*.x"]})
        self.assertEqual(RunConfiguration().output_data, {})

    def test_wrong_destinations_globs_and_names_are_named(self):
        for call, said in ((lambda: OutputFileDatasetConfig(destination="a/b"), "destination must be"),
                           (lambda: OutputFileDatasetConfig(destination=(STORE, "../x")), "destination must be"),
                           (lambda: OutputFileDatasetConfig(name="a b"), "input or output name"),
                           (lambda: OutputFileDatasetConfig().as_upload(source_globs=5), "source_globs"),
                           (lambda: OutputFileDatasetConfig().register_on_complete(""), "name must say"),
                           (lambda: OutputFileDatasetConfig(partition_format="{a}"), "from_files")):
            with self.assertRaisesRegex(UserErrorException, said):
                call()

    def test_what_depends_on_a_run_cannot_be_an_input_before_it(self):
        for output in (OutputFileDatasetConfig("o"), OutputFileDatasetConfig("o", (STORE, "x/{run-id}"))):
            with self.assertRaisesRegex(UserErrorException, "register_on_complete"):
                output.as_input("i")._to_definition(None)

    def test_hdfs_is_refused_with_what_to_use(self):
        with self.assertRaisesRegex(UserErrorException, "Use OutputFileDatasetConfig"):
            from_list([HDFSOutputDatasetConfig("h")], Inputs())


if __name__ == "__main__":
    unittest.main()
