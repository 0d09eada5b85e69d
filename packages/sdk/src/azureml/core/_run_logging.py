import os
import time

from azureml.core import _json_metrics, _metric_values
from azureml.core._run_files import checked_artifact
from azureml.exceptions import UserErrorException
from runyard_sdk.metrics import read_all, shaped

_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".svg", ".webp", ".ico")


class RunLogging:
    """Metrics: each log call appends to the run's journal and returns; get_metrics reads what has arrived."""

    def log(self, name, value, description="", step=None):
        """One value of a metric; logged again under the same name, the metric becomes a list."""
        # Called in the innermost loop of a training: the usual case makes one call.
        kind = type(value)
        if kind is not float and kind is not int:
            value = _metric_values.scalar(value)
        if type(name) is not str or not name:
            _checked_name(name)
        if step is not None and type(step) is not int:
            step = _checked_step(step)
        (self._made_recorder or self._recorder).journal.scalar(name, value, step)

    def log_list(self, name, value, description=""):
        """Several values at once; a second list under the same name is appended."""
        values = _metric_values.values(value)
        if values:
            self._journal.values(_checked_name(name), values)

    def log_row(self, name, description=None, **kwargs):
        """One row of a table whose columns are the keyword arguments."""
        self._journal.row(_checked_name(name), _metric_values.row(kwargs))

    def log_table(self, name, value, description=""):
        """A table as a dict of columns of equal length."""
        self._journal.table(_checked_name(name), _metric_values.table(value))

    def log_image(self, name, path=None, plot=None, description=""):
        """An image: a file by `path`, or a matplotlib `plot`; exactly one of the two."""
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
        """`{name: value}` of what has been logged; with `recursive` `{run id: {name: value}}` of the children too.

        Values logged by this object are read after they were written: it flushes first.
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

        text = _json_metrics.document(schema_type, value)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "document.json")
            with open(path, "w") as sink:
                sink.write(text)
            self._store_metric_file(_checked_name(name), name, path)

    def _store_metric_file(self, name, artifact_path, source):
        if not os.path.isfile(source):
            raise UserErrorException("There is no file {!r} to log as {!r}.".format(source, name))
        # The newest wins: a metric that is logged again must not end a training.
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
