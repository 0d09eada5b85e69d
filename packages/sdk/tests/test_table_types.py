import time
import unittest

from azureml.data import DataType
from azureml.data._tables.columns import format_of, inferred_type
from azureml.data._tables.formats import column_names
from azureml.exceptions import UserErrorException


def kind(*texts):
    return inferred_type(texts)["kind"]


class InferredTypes(unittest.TestCase):
    def test_zeros_and_ones_are_truth_values_as_in_the_original(self):
        self.assertEqual([kind("0", "1"), kind("1"), kind("1", ""), kind("0", "1", "2")],
                         ["flag", "flag", "flag", "number"])

    def test_words_of_truth(self):
        self.assertEqual([kind("true", "False"), kind("T", "f"), kind("Y", "N"), kind(" true", "1")], ["bool"] * 4)
        self.assertEqual([kind("yes", "no"), kind("F"), kind("y", "1")], ["string"] * 3)

    def test_numbers(self):
        for texts in (["2"], [" 2 ", "-3"], ["1.5", "2"], ["1e5"], ["007"], ["+5"], ["2", "nan"], [".5"], ["inf", "2"]):
            self.assertEqual(kind(*texts), "number", texts)
        for texts in (["1,000"], ["0x1"], ["5%"], ["2", "x"], ["1.1.1"], ["\u0663"], [""], []):
            self.assertEqual(kind(*texts), "string", texts)

    def test_dates_by_the_part_that_comes_first(self):
        for text, order, form in (
                ("2019-01-02", "year", "%Y-%m-%d"), ("2019/1/2 03:04", "year", "%Y/%m/%d %H:%M"),
                ("2019-01-02T03:04:05.123Z", "year", "%Y-%m-%dT%H:%M:%S.%f%z"),
                ("2019-01-02 03:04:05 +02:00", "year", "%Y-%m-%d %H:%M:%S %z"), ("1/13/2019", "month", "%m/%d/%Y"),
                ("13/1/2019", "day", "%d/%m/%Y"), ("1/2/2019 3:04:05 PM", "month", "%m/%d/%Y %I:%M:%S %p")):
            found = inferred_type([text])
            self.assertEqual((found["kind"], found["order"], format_of(text, order)), ("datetime", order, form))
        for texts in (["Jan 2 2019"], ["03:04:05"], ["13/1/2019", "1/13/2019"], ["2019-13-01"], ["20-1-2"]):
            self.assertEqual(kind(*texts), "string", texts)

    def test_a_long_run_of_digits_is_looked_at_in_no_time(self):
        started = time.monotonic()
        self.assertEqual(kind("1" * 200000 + "x"), "string")
        self.assertLess(time.monotonic() - started, 1)


class ColumnNames(unittest.TestCase):
    def test_missing_and_doubled_names_are_made(self):
        self.assertEqual(column_names([" a ", "", "a", "a_1"], 5), ["a", "Column2", "a_1", "a_1_1", "Column5"])


class DataTypes(unittest.TestCase):
    def test_types_are_values(self):
        self.assertEqual(DataType.to_long(), DataType.to_long())
        self.assertNotEqual(DataType.to_float(), DataType.to_float(","))
        self.assertEqual(DataType.to_datetime("%Y").to_json(), {"kind": "datetime", "formats": ["%Y"]})

    def test_wrong_settings_are_refused(self):
        for wrong in (5, [], [5], ""):
            with self.assertRaisesRegex(UserErrorException, "formats must be"):
                DataType.to_datetime(wrong)
        with self.assertRaisesRegex(UserErrorException, "decimal_mark must be"):
            DataType.to_float(";")


if __name__ == "__main__":
    unittest.main()
