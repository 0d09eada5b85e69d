import os

from azureml._service import webservice_errors
from azureml.core._model_references import model_ids, models_of, no_code_model
from azureml.core._inference_config import check_code, send_with_code
from azureml.exceptions import WebserviceException
from runyard_sdk.submitter import submitter_facts

_ENDED = ("Succeeded", "Failed")


def create_package(workspace, models, inference_config):
    """Start making a package; returns at once."""
    found = models_of(workspace, models)
    if inference_config is None:
        no_code_model(found)
    else:
        check_code(inference_config)
    body = {"models": model_ids(found), "inference": None, "submitter": submitter_facts()}
    with webservice_errors():
        record = send_with_code(workspace._client, inference_config, body, lambda whole: workspace._client.post(
            workspace._path("packages"), whole))
    return ModelPackage(workspace, record["id"], getattr(inference_config, "environment", None))


class ModelPackage(object):
    """Models, script and environment as a folder from which an image can be built."""

    def __init__(self, workspace, operation_id, environment):
        self.workspace = workspace
        self._id, self._environment = operation_id, environment
        self.update_creation_state()

    @property
    def state(self):
        return self._record["state"]

    @property
    def package_build_log_uri(self):
        return None

    @property
    def location(self):
        """None: Runyard has no image registry."""
        return None

    @property
    def environment(self):
        return self._environment

    def update_creation_state(self):
        with webservice_errors():
            self._record = self.workspace._client.get(self._path)

    def wait_for_creation(self, show_output=False):
        """Wait until the package is made. Raises WebserviceException with the cause if that failed."""
        import time
        pause = 0.02
        while self.state not in _ENDED:
            time.sleep(pause)
            pause = min(2 * pause, 1)
            self.update_creation_state()
        if show_output:
            print(self.get_logs())
            print("Package creation %s" % self.state)
        if self.state == "Failed":
            error = self._record.get("error") or {}
            raise WebserviceException("The package could not be made. %s" % " ".join(
                error[key] for key in ("problem", "hint") if error.get(key)))

    def get_logs(self, decode=True, offset=0):
        """Build log from the character `offset` on; bytes unless decoded."""
        text = (self._record.get("log") or "")[offset:]
        return text if decode else text.encode("utf-8")

    def save(self, output_directory):
        """Download the folder: Dockerfile, entry point, models and script. Existing files are replaced."""
        import tempfile
        import zipfile
        self.wait_for_creation()
        os.makedirs(output_directory, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            archive = os.path.join(folder, "package.zip")
            with webservice_errors():
                self.workspace._client.download(self._path + "/zip", archive)
            with zipfile.ZipFile(archive) as opened:
                for member in opened.infolist():
                    written = opened.extract(member, output_directory)
                    if member.external_attr >> 16 & 0o100 and not member.filename.endswith("/"):
                        os.chmod(written, 0o755)

    def pull(self):
        raise WebserviceException("There is no image to pull: a package is a folder here. Write it with save('folder') "
                                  "and build it with `docker build folder`.")

    def get_container_registry(self):
        raise WebserviceException("A package is a folder here, and lies in no registry. Write it with save('folder').")

    def serialize(self):
        return {"id": self._id, "state": self.state, "workspaceName": self.workspace.name, "location": self.location}

    def __repr__(self):
        return "ModelPackage(workspace=%r, id=%s, state=%s)" % (self.workspace.name, self._id, self.state)

    @property
    def _path(self):
        return self.workspace._path("packages", self._id)
