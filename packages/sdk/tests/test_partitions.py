import unittest
from datetime import datetime

from azureml.data._expressions import checked, column
from azureml.data._partitions import PartitionFormat
from azureml.exceptions import UserErrorException

FORMAT = "/{country}/{day:yyyy/MM/dd}/*.csv"
FILES = [{"path": "2019/01/02/a.csv", "key": "sales/it/2019/01/02/a.csv"},
         {"path": "2019/01/02/b.csv", "key": "sales/it/2019/01/02/b.csv"},
         {"path": "2020/05/06/a.csv", "key": "sales/fr/2020/05/06/a.csv"},
         {"path": "notes.txt", "key": "sales/notes.txt"}]


class Formats(unittest.TestCase):
    def test_parts_of_a_path_become_texts_and_times(self):
        found = PartitionFormat(FORMAT).values_of("sales/it/2019/01/02/a.csv")
        self.assertEqual(found, {"country": "it", "day": datetime(2019, 1, 2)})

    def test_a_path_of_another_form_has_no_values(self):
        for path in ("it/2019/a.csv", "it/2019/13/02/a.csv", "it/2019/01/02/a.txt", ""):
            self.assertIsNone(PartitionFormat(FORMAT).values_of(path))

    def test_each_combination_is_told_once(self):
        known = PartitionFormat(FORMAT)
        self.assertEqual(known.combinations(FILES), [{"country": "it", "day": datetime(2019, 1, 2)},
                                                     {"country": "fr", "day": datetime(2020, 5, 6)}])
        self.assertEqual(known.combinations(FILES, ["country"]), [{"country": "it"}, {"country": "fr"}])
        self.assertEqual(PartitionFormat(None).combinations(FILES), [])

    def test_wrong_formats_and_keys_are_named(self):
        for text in ("", "data.csv", 5, "/{a}/{a}/x", "/{t:YYYY-mm}/x"):
            with self.assertRaisesRegex(UserErrorException, "partition_format"):
                PartitionFormat(text)
        with self.assertRaisesRegex(UserErrorException, "partition_keys names 'town'.*'country', 'day'"):
            PartitionFormat(FORMAT).combinations(FILES, ["town"])


class Filters(unittest.TestCase):
    def turned(self, expression):
        return PartitionFormat(FORMAT).on_paths(checked(expression), ("Path", "Size"), lambda: FILES)

    def test_a_comparison_of_a_key_becomes_one_of_paths(self):
        self.assertEqual(self.turned(column("country") == "fr"), ["==", ["column", "Path"], "/2020/05/06/a.csv"])
        self.assertEqual(self.turned(column("day") < datetime(2020, 1, 1)), [
            "or", ["==", ["column", "Path"], "/2019/01/02/a.csv"], ["==", ["column", "Path"], "/2019/01/02/b.csv"]])

    def test_what_no_file_has_is_never_true(self):
        self.assertEqual(self.turned(column("country") == "de"), ["not", ["startswith", ["column", "Path"], ""]])

    def test_other_columns_stay_as_they_are(self):
        self.assertEqual(self.turned((column("Size") > 3) & ~column("country").startswith("i")),
                         ["and", [">", ["column", "Size"], 3],
                          ["not", ["or", ["==", ["column", "Path"], "/2019/01/02/a.csv"],
                                   ["==", ["column", "Path"], "/2019/01/02/b.csv"]]]])

    def test_an_unknown_column_is_named(self):
        with self.assertRaisesRegex(UserErrorException, "the column 'town'; known are 'Path', 'Size', 'country'"):
            self.turned(column("town") == "x")


if __name__ == "__main__":
    unittest.main()
