"""A folder that an image is built from: what of it the service is given."""
import os

from azureml._elements import Element
from azureml._service import translated
from azureml.exceptions import UserErrorException
from runyard_sdk.errors import RunyardError


class DockerBuildContext(Element):
    """A Dockerfile and the files that it may copy: a folder that was sent to the service, or a git address."""

    _fields = dict.fromkeys(("location_type", "location", "dockerfile_path", "_files"))

    class LocationType(object):
        Git = "git"
        StorageAccount = "storageaccount"

    def __init__(self, location_type=None, location=None, dockerfile_path="Dockerfile"):
        self.location_type = location_type
        self.location = location
        self.dockerfile_path = dockerfile_path
        self._files = []

    @staticmethod
    def from_local_directory(workspace, path, dockerfile_path="Dockerfile"):
        """The folder as it is now, less what its .dockerignore names and links that lead out of it: later changes of it
        have no effect."""
        dockerfile = _checked(path, dockerfile_path)
        made = DockerBuildContext(DockerBuildContext.LocationType.StorageAccount, os.path.abspath(path), dockerfile)
        made._files = _sent(workspace._client, os.path.abspath(path), dockerfile)
        return made


def _checked(path, dockerfile_path):
    """The Dockerfile's path inside the folder, with forward slashes."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isdir(path):
        raise UserErrorException("path must be the folder to build the image from, got %r." % (path,))
    if not isinstance(dockerfile_path, str) or not dockerfile_path:
        raise UserErrorException("dockerfile_path must be a path inside of %r, got %r." % (str(path), dockerfile_path))
    inside = os.path.normpath(dockerfile_path)
    if os.path.isabs(inside) or inside.split(os.sep)[0] == os.pardir or "\x00" in inside:
        raise UserErrorException("dockerfile_path %r lies outside of %r; only that folder is sent." % (
            dockerfile_path, str(path)))
    if not os.path.isfile(os.path.join(path, inside)):
        raise UserErrorException("There is no %r in %r; dockerfile_path names the Dockerfile inside of the folder." % (
            dockerfile_path, str(path)))
    return inside.replace(os.sep, "/")


def _sent(client, folder, dockerfile):
    """The entries of the folder's files, once the service has their contents."""
    from runyard_sdk.blobs import send_missing
    from runyard_sdk.ignore import context_rules
    from runyard_sdk.snapshot import take, take_file
    try:
        entries = take(folder, rules_of=context_rules)
    except RunyardError as error:
        raise translated(error)
    if dockerfile not in [entry[0] for entry in entries]:
        # Docker, too, needs the one that .dockerignore leaves out.
        entries += [[dockerfile] + take_file(os.path.join(folder, dockerfile))[0][1:]]
    missing = client.post_again("/blobs/missing", {"sha256": sorted({entry[1] for entry in entries})})["missing"]
    return send_missing(client, entries, lambda path: os.path.join(folder, path), missing)
