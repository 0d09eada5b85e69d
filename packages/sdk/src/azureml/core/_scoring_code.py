"""The files of a scoring script: which they are, and how they get to the service."""
import os

from azureml._service import translated
from azureml.exceptions import WebserviceException
from runyard_sdk import snapshot
from runyard_sdk.blobs import hashed, send_missing
from runyard_sdk.errors import BlobsMissing, NotFound, RunyardError
from runyard_sdk.ignore import no_rules

_SENDING_ATTEMPTS = 3


class ScoringFiles(object):
    """Files as a deployment names them, and where their contents lie here."""

    def __init__(self):
        self.entries, self._path_by_name = [], {}

    def add_folder(self, folder, root):
        """The whole folder, below `root`: ignore files do not count, links are followed."""
        try:
            taken = snapshot.take(folder, rules_of=no_rules)
        except RunyardError as error:
            raise translated(error)
        for path, sha256, size, mode in taken:
            self._add(root + "/" + path, sha256, size, mode, os.path.join(folder, path))

    def add_file(self, path, name):
        sha256, size = hashed(path)
        self._add(name, sha256, size, os.stat(path).st_mode & 0o777, path)

    def send(self, client, sha256s):
        """Send these contents. `entries` names what was sent: files may have changed since they were added."""
        self.entries[:] = send_missing(client, self.entries, self._path_by_name.__getitem__, sha256s)

    def send_all(self, client):
        self.send(client, {entry[1] for entry in self.entries})

    def _add(self, name, sha256, size, mode, path):
        self.entries.append([name, sha256, size, mode])
        self._path_by_name[name] = path


class SourceOnDisk(object):
    """The script of a web service that was deployed from this machine, as its files are now."""

    def __init__(self, inference):
        self._before = inference

    @property
    def has_changed(self):
        return sorted(self._files().entries) != sorted(list(entry) for entry in self._before["files"])

    def validate_configuration(self):
        """It was valid when it was deployed; what it is now, its start tells."""

    def _inference(self):
        files = self._files()
        return dict(self._before, files=files.entries), files

    def _files(self):
        return files_of(self._before["source_directory"], self._before["entry_script"])


def files_of(source_directory, entry_script):
    """Those of a whole source_directory, whose name stands first in entry_script; or of the script alone."""
    files = ScoringFiles()
    if "/" in entry_script:
        files.add_folder(source_directory, entry_script.split("/")[0])
    else:
        files.add_file(os.path.join(source_directory, entry_script), entry_script)
    return files


def code_on_disk(inference):
    """SourceOnDisk, or None where the script is not here."""
    folder = (inference or {}).get("source_directory")
    if not folder:
        return None
    whole = inference["entry_script"]
    inside = whole.split("/", 1)[1] if "/" in whole else whole
    return SourceOnDisk(inference) if os.path.isfile(os.path.join(folder, inside)) else None


def check_code(code):
    """WebserviceException for what is no scoring script, and what its own checks find."""
    if not hasattr(code, "_inference"):
        raise WebserviceException("inference_config must be an InferenceConfig, got %r." % (code,))
    code.validate_configuration()


def send_with_code(client, code, body, send):
    """Call `send` with the body and the code's `inference`, again once contents that the service lacks are sent."""
    if code is None:
        return send(body)
    inference, files = code._inference()
    for attempt in range(_SENDING_ATTEMPTS):
        try:
            return send(dict(body, inference=inference))
        except BlobsMissing as error:
            if attempt == _SENDING_ATTEMPTS - 1:
                raise
            missing = error.facts["sha256"]
        try:
            files.send(client, missing)
        except (FileNotFoundError, NotFound):
            inference, files = code._inference()  # a file is gone: take what there is now


def check_script(argument, path):
    """WebserviceException for what cannot be a scoring script: not there, not a module."""
    if not os.path.isfile(path):
        raise WebserviceException("%s %r is not there: no such file." % (argument, path))
    name, extension = os.path.splitext(os.path.basename(path))
    if extension != ".py":
        raise WebserviceException("%s must be a Python file (.py), got %r." % (argument, path))
    if not name.isidentifier():
        raise WebserviceException("%s %r is imported as a module, so its name must be letters, digits and '_' and not "
                                  "begin with a digit. Rename it." % (argument, os.path.basename(path)))
