"""The object that Run.get_context() gives a script that runs on its own: it prints and goes on."""

from azureml.exceptions import UserErrorException
from runyard_sdk.ids import uuid4


class _OfflineRun:
    """Prints what is logged. It has no experiment, no parent and no history: those names are missing, as in v1."""

    def __init__(self, run_id=None):
        self._run_id = run_id or "OfflineRun_{}".format(uuid4())

    @property
    def id(self):
        return self._run_id

    def log(self, name, value, description=""):
        self._say("scalar metric", name, value)

    def log_list(self, name, value, description=""):
        self._say("list metric", name, value)

    def log_row(self, name, description=None, **kwargs):
        self._say("row metric", name, kwargs)

    def log_table(self, name, value, description=""):
        self._say("table metric", name, value)

    def log_image(self, name, path=None, plot=None, description=""):
        if (path is None) == (plot is None):
            raise UserErrorException("Give exactly one of path and plot to log_image.")
        self._say("image metric", name, path if path is not None else plot)

    def log_confusion_matrix(self, name, value, description=""):
        self._say("confusion matrix", name, value)

    def log_accuracy_table(self, name, value, description=""):
        self._say("accuracy table", name, value)

    def log_residuals(self, name, value, description=""):
        self._say("residuals", name, value)

    def log_predictions(self, name, value, description=""):
        self._say("predictions", name, value)

    def add_properties(self, properties):
        print("Attempted to add properties:\n{}".format(properties))

    def set_tags(self, tags):
        print("Attempted to set tags:\n{}".format(tags))

    def tag(self, key, value=None):
        print("Attempted to tag {}:\n{}".format(key, value))

    def upload_file(self, name, path_or_stream, datastore_name=None):
        print("Attempted to upload file {}:\n{}".format(name, path_or_stream))

    def upload_files(self, names, paths, return_artifacts=False, timeout_seconds=None, datastore_name=None):
        print("Attempted to upload files {}:\n{}".format(names, paths))

    def upload_folder(self, name, path, datastore_name=None):
        print("Attempted to upload folder {}:\n{}".format(name, path))

    def child_run(self, name=None, run_id=None, outputs=None):
        return _OfflineRun(run_id)

    def complete(self, _set_status=True):
        """Nothing to complete."""

    def fail(self, error_details=None, error_code=None, _set_status=True):
        """Nothing to fail."""

    def cancel(self):
        """Nothing to cancel."""

    def flush(self, timeout_seconds=300):
        """Nothing to wait for."""

    def __enter__(self):
        return self

    def __exit__(self, exit_type, value, traceback):
        return False

    def __repr__(self):
        return "Run(Id: {},\nType: offline)".format(self._run_id)

    def _say(self, what, name, value):
        print("Attempted to log {} {}:\n{}".format(what, name, value))
