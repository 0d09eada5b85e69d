"""Tabular datasets as they are described, before anything is read. No pandas is here, and none is asked for."""
import sys
import unittest
from datetime import datetime, timedelta

from azureml._unsupported import NotYetException
from azureml.core import Dataset
from azureml.data import DataType, TabularDataset
from azureml.data.azure_storage_datastore import AzureBlobDatastore
from azureml.data.dataset_factory import PromoteHeadersBehavior
from azureml.data.dataset_type_definitions import FileEncoding
from azureml.exceptions import DatasetTimestampMissingError, UserErrorException

STORE = AzureBlobDatastore(None, "store", "c", "a")


def table(**settings):
    return Dataset.Tabular.from_delimited_files((STORE, "a.csv"), validate=False, **settings)


class Formats(unittest.TestCase):
    def test_a_definition_holds_all_that_reading_needs(self):
        made = table(set_column_types={"a": DataType.to_long(), ("b", "c"): DataType.to_string()}, header=False,
                     separator="\t", encoding="latin1", partition_format="/{day:yyyy/MM}/a.csv")
        form = made._body()["format"]
        self.assertEqual((form["kind"], form["separator"], form["header"], form["encoding"]),
                         ("delimited", "\t", "NO_HEADERS", "latin1"))
        self.assertEqual(form["column_types"], {"a": {"kind": "long"}, "b": {"kind": "string"}, "c": {"kind": "string"}})
        self.assertEqual((made._body()["type"], made._body()["sources"]),
                         ("tabular", [{"datastore": "store", "path": "a.csv"}]))
        self.assertEqual(made.partition_keys, ["day"])

    def test_headers_and_encodings_of_both_ages_of_the_sdk(self):
        for given, expected in ((True, "ALL_FILES_HAVE_SAME_HEADERS"), (
                PromoteHeadersBehavior.COMBINE_ALL_FILES_HEADERS, "COMBINE_ALL_FILES_HEADERS")):
            self.assertEqual(table(header=given)._format["header"], expected)
        self.assertEqual(table(encoding=FileEncoding.WINDOWS1252)._format["encoding"], "windows1252")

    def test_wrong_settings_are_refused_by_name(self):
        for settings, said in (({"separator": ",,"}, "separator"), ({"separator": "\r"}, "separator"),
                               ({"header": "yes"}, "header"), ({"encoding": "klingon"}, "encoding"),
                               ({"set_column_types": {"a": "int"}}, "set_column_types"),
                               ({"set_column_types": {5: DataType.to_long()}}, "set_column_types"),
                               ({"set_column_types": ["a"]}, "set_column_types"),
                               ({"partition_format": "no keys"}, "partition_format")):
            with self.assertRaisesRegex(UserErrorException, said):
                table(**settings)
        with self.assertRaisesRegex(UserErrorException, "invalid_lines"):
            Dataset.Tabular.from_json_lines_files((STORE, "a"), validate=False, invalid_lines="skip")


class Steps(unittest.TestCase):
    def test_each_method_adds_a_step_and_leaves_the_dataset_as_it_was(self):
        whole = table()
        made = whole.take(5).skip(2).keep_columns("a").drop_columns(["b"]).filter(whole["a"] > 3)
        self.assertEqual(made._steps, [["take", 5], ["skip", 2], ["keep_columns", ["a"]], ["drop_columns", ["b"]],
                                       ["filter", [">", ["column", "a"], 3]]])
        self.assertEqual((whole._steps, made.id, type(made)), ([], None, TabularDataset))

    def test_the_parts_of_a_split_share_a_seed(self):
        for seed in (None, 7):
            first, second = table().random_split(0.8, seed=seed)
            self.assertEqual(first._steps[0][:3], second._steps[0][:3])
            self.assertEqual((first._steps[0][3], second._steps[0][3]), (True, False))

    def test_wrong_arguments_are_refused_by_name(self):
        made = table()
        for call, said in ((lambda: made.take(-1), "count"), (lambda: made.skip(1.5), "count"),
                           (lambda: made.take(True), "count"), (lambda: made.random_split(80), "percentage"),
                           (lambda: made.take_sample("a"), "probability"), (lambda: made.take_sample(.5, "s"), "seed"),
                           (lambda: made.keep_columns([]), "columns"), (lambda: made.drop_columns([5]), "columns")):
            with self.assertRaisesRegex(UserErrorException, said + " must be"):
                call()


class Times(unittest.TestCase):
    def test_a_time_filter_needs_a_column_of_times(self):
        for call in (lambda: table().time_before(datetime(2019, 1, 1)), lambda: table().time_recent(timedelta(days=1))):
            with self.assertRaisesRegex(DatasetTimestampMissingError, "with_timestamp_columns"):
                call()

    def test_the_columns_of_times_are_told_until_they_are_dropped(self):
        made = table().with_timestamp_columns("t", "p")
        self.assertEqual((table().timestamp_columns, made.timestamp_columns), ((None, None), ("t", "p")))
        self.assertEqual(made.keep_columns("t").timestamp_columns, ("t", None))
        self.assertEqual(made.drop_columns("t").timestamp_columns, (None, "p"))
        self.assertEqual(made.with_timestamp_columns(None).timestamp_columns, (None, None))
        self.assertEqual(table().with_timestamp_columns(fine_grain_timestamp="t").timestamp_columns, ("t", None))

    def test_partitions_are_taken_from_the_beginning_of_the_one_that_a_time_lies_in(self):
        made = table(partition_format="/{p:yyyy/MM}/a.csv").with_timestamp_columns("t", "p")
        self.assertEqual(made.time_after(datetime(2019, 5, 17), include_boundary=False)._steps[1:], [
            ["time", "p", "2019-05-01T00:00:00", None, True], ["time", "t", "2019-05-17T00:00:00", None, False]])

    def test_wrong_arguments_are_refused_by_name(self):
        made = table().with_timestamp_columns("t")
        for call, said in ((lambda: made.time_before("2019"), "end_time"), (lambda: made.time_recent(3), "time_delta"),
                           (lambda: made.time_between(datetime(2020, 1, 1), datetime(2019, 1, 1)), "start_time"),
                           (lambda: made.with_timestamp_columns("t", "t"), "partition_timestamp"),
                           (lambda: made.with_timestamp_columns(5), "timestamp"),
                           (lambda: made.with_timestamp_columns(other="t"), "other")):
            with self.assertRaisesRegex(UserErrorException, said):
                call()


class Refusals(unittest.TestCase):
    def test_what_has_no_counterpart_says_what_to_do_instead(self):
        made = table()
        for call, instead in ((made.to_spark_dataframe, "createDataFrame"), (made.get_profile_runs, "get_profile"),
                              (lambda: made.mount("Path"), "download"),
                              (lambda: made.submit_profile_run(None, None), "get_profile"),
                              (lambda: Dataset.Tabular.from_sql_query((None, "select")), "read_sql"),
                              (lambda: Dataset.Tabular.register_spark_dataframe(None, None, "n"), "toPandas"),
                              (lambda: Dataset.from_excel_files("http://host/a"), "read_excel"),
                              (lambda: Dataset.from_pandas_dataframe(None), "register_pandas_dataframe"),
                              (lambda: Dataset.from_delimited_files("http://host/a", skip_rows=1), "skip_rows")):
            with self.assertRaisesRegex(NotYetException, instead):
                call()

    def test_a_table_is_an_input_only_as_it_is(self):
        self.assertEqual(table().as_named_input("rows").mode, "direct")
        for how in ("as_mount", "as_download"):
            with self.assertRaisesRegex(UserErrorException, "tabular"):
                getattr(table().as_named_input("rows"), how)()

    def test_without_pandas_the_error_says_what_to_add(self):
        hidden = {"pandas": None, "pyarrow": None, "dask.dataframe": None, "dask": None}
        before = {name: sys.modules.get(name) for name in hidden}
        sys.modules.update(hidden)
        try:
            for call in (table().to_pandas_dataframe, table().to_dask_dataframe, table().to_parquet_files,
                         lambda: Dataset.Tabular.register_pandas_dataframe(None, STORE, "n", show_progress=False)):
                with self.assertRaisesRegex(UserErrorException, r"pip install (pandas|pyarrow|dask).*add_pip_package"):
                    call()
        finally:
            for name, module in before.items():
                sys.modules.pop(name) if module is None else sys.modules.update({name: module})


if __name__ == "__main__":
    unittest.main()
