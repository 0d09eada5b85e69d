"""Metrics that are documents: confusion matrices and their kin."""

import json

from azureml.exceptions import UserErrorException

_FIELDS = {
    "confusion_matrix": ("class_labels", "matrix"),
    "accuracy_table": ("probability_tables", "percentile_tables", "probability_thresholds", "percentile_thresholds",
                       "class_labels"),
    "residuals": ("bin_edges", "bin_counts"),
    "predictions": ("bin_averages", "bin_errors", "bin_counts", "bin_edges"),
}


def document(schema_type, value):
    """The text to store for a JSON metric given as dict or JSON string. Raises UserErrorException."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise UserErrorException("value is not valid JSON: {}. Give a dict or a JSON string.".format(error))
    if not isinstance(value, dict):
        raise UserErrorException("value must be a dict or a JSON string, got {}.".format(type(value).__name__))
    if value.get("schema_type") != schema_type:
        raise UserErrorException("value['schema_type'] must be {!r}, got {!r}.".format(
            schema_type, value.get("schema_type")))
    if "schema_version" not in value:
        raise UserErrorException("value['schema_version'] is missing; give the version of the {} format.".format(
            schema_type))
    data = value.get("data")
    missing = [name for name in _FIELDS[schema_type] if not isinstance(data, dict) or name not in data]
    if missing:
        raise UserErrorException("value['data'] lacks {}.".format(", ".join(missing)))
    try:
        return json.dumps(value)
    except TypeError as error:
        raise UserErrorException("value cannot be written as JSON: {}. Convert arrays with tolist().".format(error))
