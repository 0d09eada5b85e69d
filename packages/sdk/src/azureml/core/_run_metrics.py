import json
import os
import time

from azureml.core._run_files import checked_artifact
from azureml.exceptions import AzureMLException, UserErrorException
from runyard_sdk.metrics import read_all, shaped

_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".svg", ".webp", ".ico")
_NUMPY_FLOATS = frozenset(["float16", "float32", "float64"])
_NUMPY_INTEGERS = frozenset(["int8", "int16", "int32", "uint8", "uint16", "uint32"])
_NUMPY_TRUTHS = frozenset(["bool", "bool_"])
_NUMPY_TEXTS = frozenset(["str_"])
_PLAIN_TYPES = (float, int, str, bool, type(None))
_SERIES = (list, tuple, set, frozenset, range)
_DOCUMENT_FIELDS = {
    "confusion_matrix": ("class_labels", "matrix"),
    "accuracy_table": ("probability_tables", "percentile_tables", "probability_thresholds", "percentile_thresholds",
                       "class_labels"),
    "residuals": ("bin_edges", "bin_counts"),
    "predictions": ("bin_averages", "bin_errors", "bin_counts", "bin_edges"),
}


class RunMetrics:
    """Metrics: each log call appends to the run's journal and returns; get_metrics reads what the service has."""

    def log(self, name, value, description="", step=None):
        """Log one value; logged again under the same name, the metric becomes a list."""
        # Called in the innermost training loop: the usual case costs one call.
        kind = type(value)
        if kind is not float and kind is not int:
            value = as_scalar(value)
        if type(name) is not str or not name:
            _checked_name(name)
        if step is not None and type(step) is not int:
            step = _checked_step(step)
        (self._made_recorder or self._recorder).journal.scalar(name, value, step)

    def log_list(self, name, value, description=""):
        """Log several values; a second list under the same name is appended."""
        values = as_values(value)
        if values:
            self._journal.values(_checked_name(name), values)

    def log_row(self, name, description=None, **kwargs):
        """Log one row of a table whose columns are the keyword arguments."""
        self._journal.row(_checked_name(name), as_row(kwargs))

    def log_table(self, name, value, description=""):
        """Log a table given as a dict of columns of equal length."""
        self._journal.table(_checked_name(name), as_table(value))

    def log_image(self, name, path=None, plot=None, description=""):
        """Log an image: a file `path` or a matplotlib `plot`, exactly one of the two."""
        _checked_name(name)
        if (path is None) == (plot is None):
            raise UserErrorException("Give exactly one of path and plot to log_image, got {}.".format(
                "neither" if path is None else "both"))
        if plot is not None:
            self._log_plot(name, plot)
            return
        if not str(path).lower().endswith(_IMAGE_ENDINGS):
            raise UserErrorException("path must name an image ({}), got {!r}.".format(", ".join(_IMAGE_ENDINGS), path))
        self._store_metric_file(name, os.path.basename(path), path)

    def log_confusion_matrix(self, name, value, description=""):
        self._log_document("confusion_matrix", name, value)

    def log_accuracy_table(self, name, value, description=""):
        self._log_document("accuracy_table", name, value)

    def log_residuals(self, name, value, description=""):
        self._log_document("residuals", name, value)

    def log_predictions(self, name, value, description=""):
        self._log_document("predictions", name, value)

    def get_metrics(self, name=None, recursive=False, run_type=None, populate=False):
        """`{name: value}` of the logged metrics; with `recursive` `{run id: {name: value}}` of the children too.

        Flushes first, so values logged by this object are included.
        """
        self.flush()
        by_run = {}
        for metric, values in read_all(self._client, self._path + "/metrics", name=name, children=bool(recursive)):
            by_run.setdefault(metric.get("run_id") or self.id, []).append((metric, values))
        if not recursive:
            return shaped(by_run.get(self.id, []), self.id)
        return {run_id: shaped(series, run_id) for run_id, series in by_run.items()}

    def _log_plot(self, name, plot):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            file_name = "{}_{}.png".format(name, int(time.time()))
            path = os.path.join(folder, "plot.png")
            plot.savefig(path, format="png")
            self._store_metric_file(name, file_name, path)

    def _log_document(self, schema_type, name, value):
        import tempfile

        text = as_document(schema_type, value)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "document.json")
            with open(path, "w") as sink:
                sink.write(text)
            self._store_metric_file(_checked_name(name), name, path)

    def _store_metric_file(self, name, artifact_path, source):
        if not os.path.isfile(source):
            raise UserErrorException("There is no file {!r} to log as {!r}.".format(source, name))
        # The newest wins: logging a metric twice must not end a training.
        self._recorder.store({checked_artifact(artifact_path): os.path.abspath(source)}, replace=True)
        self._journal.image(name, artifact_path)


def _checked_name(name):
    if not isinstance(name, str) or not name:
        raise UserErrorException("name must be a non-empty string, got {!r}.".format(name))
    return name


def _checked_step(step):
    try:
        return int(step)
    except (TypeError, ValueError):
        raise UserErrorException("step must be a whole number, got {!r}.".format(step))


def as_scalar(value, argument="value"):
    """Stored form of one value: numbers, text, booleans and None unchanged, anything else as text.

    numpy.int64 becomes text, as in v1. Raises UserErrorException for a series of values. numpy is recognised and never
    imported.
    """
    kind = type(value)
    if kind in _PLAIN_TYPES:
        return value
    if kind.__module__ == "numpy":
        return _numpy_value(value, kind.__name__)
    if isinstance(value, _SERIES) or hasattr(value, "__next__"):
        raise UserErrorException("{} must be one value, got {}. Use log_list for several values.".format(
            argument, kind.__name__))
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return plain(value)
    return repr(value)


def as_values(series, argument="value"):
    """Stored form of a list. Raises UserErrorException for a nested list."""
    if isinstance(series, (str, bytes)) or not hasattr(series, "__iter__"):
        raise UserErrorException("{} must be a list, got {}.".format(argument, type(series).__name__))
    return [as_scalar(value, "Each item of " + argument) for value in series]


def as_row(columns):
    """Stored form of a row `{column: value}`. Raises AzureMLException for a list in it."""
    for name, value in columns.items():
        if isinstance(value, _SERIES):
            raise AzureMLException("Column {!r} of the row holds a {}; a row has one value per column. "
                                   "Use log_table for several rows.".format(name, type(value).__name__))
    return {str(name): as_scalar(value, "Column {!r}".format(name)) for name, value in columns.items()}


def as_table(columns):
    """Stored form of a table `{column: [values]}`. Raises AzureMLException where columns differ in length."""
    if not isinstance(columns, dict):
        raise UserErrorException("value must be a dict of columns, got {}.".format(type(columns).__name__))
    stored = {}
    for name, column in columns.items():
        is_series = hasattr(column, "__iter__") and not isinstance(column, (str, bytes, dict))
        stored[str(name)] = as_values(column if is_series else [column], "Column {!r}".format(name))
    lengths = {name: len(column) for name, column in stored.items()}
    if len(set(lengths.values())) > 1:
        raise AzureMLException("All columns of a table must have the same length, got {}.".format(
            ", ".join("{}: {}".format(name, length) for name, length in sorted(lengths.items()))))
    return stored


def _numpy_value(value, name):
    if name in _NUMPY_FLOATS:
        return float(value)
    if name in _NUMPY_INTEGERS:
        return int(value)
    if name in _NUMPY_TRUTHS:
        return bool(value)
    if name in _NUMPY_TEXTS:
        return str(value)
    return str(value) if not getattr(value, "shape", ()) else repr(value)


def as_document(schema_type, value):
    """JSON text of a document metric (confusion matrix and the like) given as dict or JSON string. Raises
    UserErrorException."""
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
    missing = [name for name in _DOCUMENT_FIELDS[schema_type] if not isinstance(data, dict) or name not in data]
    if missing:
        raise UserErrorException("value['data'] lacks {}.".format(", ".join(missing)))
    try:
        return json.dumps(value)
    except TypeError as error:
        raise UserErrorException("value cannot be written as JSON: {}. Convert arrays with tolist().".format(error))
