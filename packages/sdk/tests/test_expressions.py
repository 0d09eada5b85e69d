import unittest
from datetime import datetime, timezone

from azureml.core import Dataset
from azureml.data._expressions import checked, column
from azureml.exceptions import UserErrorException


class ColumnExpressions(unittest.TestCase):
    def test_a_comparison_is_the_list_of_the_wire(self):
        age = column("age")
        for condition, expected in (
                (age == 3, ["==", ["column", "age"], 3]), (age != "x", ["!=", ["column", "age"], "x"]),
                (age < 1.5, ["<", ["column", "age"], 1.5]), (age >= True, [">=", ["column", "age"], True]),
                (3 < age, [">", ["column", "age"], 3]), (age == column("b"), ["==", ["column", "age"], ["column", "b"]]),
                (age.startswith("a"), ["startswith", ["column", "age"], "a"]),
                (age.is_null(), ["==", ["column", "age"], None])):
            self.assertEqual(checked(condition), expected)

    def test_conditions_are_joined_by_and_or_and_not(self):
        a, b = column("a") > 1, column("b") == "x"
        self.assertEqual(checked(a & b | ~a), ["or", ["and", a.to_json(), b.to_json()], ["not", a.to_json()]])

    def test_times_are_iso_text(self):
        self.assertEqual((column("t") > datetime(2019, 1, 2, 3)).to_json()[2], "2019-01-02T03:00:00")
        aware = datetime(2019, 1, 2, tzinfo=timezone.utc)
        self.assertEqual((column("t") > aware).to_json()[2], "2019-01-02T00:00:00+00:00")

    def test_python_s_own_and_is_refused_since_it_would_drop_a_side(self):
        with self.assertRaisesRegex(UserErrorException, "Join conditions with &"):
            checked((column("a") > 1) and (column("b") < 2))
        with self.assertRaisesRegex(UserErrorException, "Join conditions with &"):
            checked(1 < column("a") < 3)

    def test_what_is_no_condition_is_refused(self):
        for wrong in ("a > 3", None, True, column("a")):
            with self.assertRaisesRegex(UserErrorException, "expression must be a condition"):
                Dataset.Tabular.from_parquet_files("http://host/a", validate=False).filter(wrong)
        with self.assertRaisesRegex(UserErrorException, "right side of &"):
            (column("a") > 1) & True
        with self.assertRaisesRegex(UserErrorException, "not with"):
            column("a") == [1]
        with self.assertRaisesRegex(UserErrorException, "startswith takes a text"):
            column("a").startswith(5)
        for name in (5, "", None, ["a"]):
            with self.assertRaisesRegex(UserErrorException, "named by a text"):
                column(name)

    def test_an_expression_shows_itself_as_it_was_written(self):
        condition = (column("a") > 3) & ~(column("b").startswith("x"))
        self.assertEqual(repr(condition), "(dataset['a'] > 3) & (~(dataset['b'].startswith('x')))")


if __name__ == "__main__":
    unittest.main()
