import json
import struct
import unittest

from azureml.core import _run_metrics
from azureml.exceptions import AzureMLException, UserErrorException
from runyard_sdk.metrics import shaped, unpacked

PACKING = {"i": "<{}q", "f": "<{}d"}


def packed(*series):
    """The answer of the service for `(name, kind, type, values)`."""
    header, payloads = [], []
    for name, kind, value_type, values in series:
        if value_type == "j":
            payload = json.dumps(values).encode("utf-8")
        else:
            payload = struct.pack(PACKING[value_type].format(len(values)), *values)
        payloads.append(payload)
        header.append({"run_id": "r", "name": name, "kind": kind, "type": value_type, "count": len(values),
                       "bytes": len(payload)})
    return json.dumps({"metrics": header}).encode("utf-8") + b"\n" + b"".join(payloads)


class ShapesOfGetMetrics(unittest.TestCase):
    def shape(self, *series):
        return shaped(unpacked(packed(*series)), "r")

    def test_no_metrics_are_an_empty_dict(self):
        self.assertEqual(self.shape(), {})

    def test_one_scalar_is_itself_and_two_are_a_list(self):
        self.assertEqual(self.shape(("a", "scalar", "i", [1])), {"a": 1})
        self.assertEqual(self.shape(("a", "scalar", "i", [1, 2])), {"a": [1, 2]})

    def test_nothing_is_a_value_too(self):
        self.assertEqual(self.shape(("a", "scalar", "j", [None])), {"a": None})
        self.assertEqual(self.shape(("a", "list", "j", [])), {})

    def test_integers_and_floats_under_one_name_are_floats(self):
        (first, second) = self.shape(("a", "scalar", "f", [1, 2.5]))["a"]
        self.assertIsInstance(first, float)
        self.assertEqual((first, second), (1.0, 2.5))

    def test_a_list_of_one_is_a_scalar(self):
        self.assertEqual(self.shape(("a", "list", "i", [7])), {"a": 7})
        self.assertEqual(self.shape(("a", "list", "i", [1, 2, 3])), {"a": [1, 2, 3]})

    def test_one_row_has_scalars_and_two_have_columns(self):
        self.assertEqual(self.shape(("r", "row", "j", [{"x": 1, "y": 2}])), {"r": {"x": 1, "y": 2}})
        self.assertEqual(self.shape(("r", "row", "j", [{"x": 1, "y": 2}, {"x": 3, "y": 4}])),
                         {"r": {"x": [1, 3], "y": [2, 4]}})

    def test_a_table_keeps_its_columns_and_one_of_one_row_has_scalars(self):
        table = {"x": [1, 2], "y": [3, 4]}
        self.assertEqual(self.shape(("t", "table", "j", [table])), {"t": table})
        self.assertEqual(self.shape(("t", "table", "j", [{"x": [1], "y": [3]}])), {"t": {"x": 1, "y": 3}})

    def test_an_image_is_the_address_of_its_artifact(self):
        self.assertEqual(self.shape(("i", "image", "j", ["i_17.png"])),
                         {"i": "aml://artifactId/ExperimentRun/dcid.r/i_17.png"})

    def test_text_truth_and_none_come_back_as_they_were(self):
        self.assertEqual(self.shape(("a", "scalar", "j", ["x", True, None])), {"a": ["x", True, None]})


class ValuesThatAreLogged(unittest.TestCase):
    def test_plain_values_stay(self):
        for value in (1, 2.5, "x", True, None):
            self.assertIs(_run_metrics.as_scalar(value), value)

    def test_a_list_a_range_and_a_generator_are_no_scalars(self):
        for value in ([1], range(2), (item for item in [1]), (1, 2)):
            with self.assertRaisesRegex(UserErrorException, "log_list"):
                _run_metrics.as_scalar(value)

    def test_a_dict_becomes_its_text(self):
        self.assertEqual(_run_metrics.as_scalar({"a": 1}), "{'a': 1}")

    def test_a_list_in_a_list_is_refused(self):
        with self.assertRaises(UserErrorException):
            _run_metrics.as_values([1, [2]])

    def test_a_list_in_a_row_is_refused(self):
        with self.assertRaisesRegex(AzureMLException, "'x'"):
            _run_metrics.as_row({"x": [1]})

    def test_a_ragged_table_is_refused(self):
        with self.assertRaisesRegex(AzureMLException, "x: 2, y: 1"):
            _run_metrics.as_table({"x": [1, 2], "y": [3]})

    def test_numpy_scalars_are_recognised_by_name_and_int64_is_text(self):
        for name, given, stored in (("float32", 0.5, 0.5), ("int32", 3, 3), ("bool_", True, True), ("int64", 3, "3")):
            self.assertEqual(_run_metrics.as_scalar(numpy_scalar(name, given)), stored)


class DocumentsThatAreLogged(unittest.TestCase):
    def test_a_confusion_matrix_needs_its_labels(self):
        value = {"schema_type": "confusion_matrix", "schema_version": "1.0.0", "data": {"matrix": [[1]]}}
        with self.assertRaisesRegex(UserErrorException, "class_labels"):
            _run_metrics.as_document("confusion_matrix", value)

    def test_the_kind_of_document_must_match_the_call(self):
        with self.assertRaisesRegex(UserErrorException, "'residuals'.*'predictions'"):
            _run_metrics.as_document("residuals", {"schema_type": "predictions"})

    def test_text_is_read_as_json(self):
        value = {"schema_type": "residuals", "schema_version": "1.0.0", "data": {"bin_edges": [0], "bin_counts": [1]}}
        self.assertEqual(json.loads(_run_metrics.as_document("residuals", json.dumps(value))), value)


def numpy_scalar(name, value):
    """An object that looks like numpy's scalar of that name: the SDK must not import numpy to know it."""
    kind = type(name, (), {"__module__": "numpy", "shape": (), "__float__": lambda self: float(value),
                           "__int__": lambda self: int(value), "__bool__": lambda self: bool(value),
                           "__str__": lambda self: str(value)})
    return kind()


if __name__ == "__main__":
    unittest.main()
