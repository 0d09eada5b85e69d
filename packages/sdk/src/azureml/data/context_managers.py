import os

from azureml.core._run_sections import Data, DataLocation, DataReferenceConfiguration, Dataset  # noqa: F401
from azureml.core.datastore import Datastore  # noqa: F401
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.exceptions import AzureMLException, RunEnvironmentException, UserErrorException  # noqa: F401


class MountedFiles(object):
    """A dataset's files in a folder, read-only, from start() to stop(); also a context manager giving itself.

    Where nothing can be mounted the files are downloaded into the folder instead, which is said on stderr.
    """

    def __init__(self, dataset, mount_point=None):
        if mount_point is not None and os.path.isdir(mount_point) and os.listdir(mount_point):
            raise UserErrorException("mount_point %r must be an empty folder." % str(mount_point))
        self._dataset = dataset
        self._is_ours = mount_point is None
        self._mount_point = mount_point and os.path.abspath(mount_point)
        self._mounting = None
        self._is_started = False

    @property
    def mount_point(self):
        if self._mount_point is None:
            import tempfile
            self._mount_point = tempfile.mkdtemp()
        return self._mount_point

    def start(self):
        """Have the files there. A second call does nothing."""
        if self._is_started:
            return
        from azureml.data._mounting import MountFailed, start_mount
        os.makedirs(self.mount_point, exist_ok=True)
        try:
            self._mounting = start_mount(self._dataset, self.mount_point)
        except MountFailed as reason:
            _say("%s The files are downloaded to %s instead." % (reason, self.mount_point))
            for path in self._dataset.download(self.mount_point, overwrite=True):
                os.chmod(path, 0o444)
        self._is_started = True

    def stop(self):
        """Take the files away; a folder that was given stays, empty."""
        import shutil
        if self._mounting is not None:
            self._mounting.stop()
            self._mounting = None
        elif self._is_started:
            for name in os.listdir(self.mount_point):
                path = os.path.join(self.mount_point, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        self._is_started = False
        if self._is_ours and self._mount_point is not None:
            if os.path.isdir(self._mount_point):
                os.rmdir(self._mount_point)
            self._mount_point = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc_details):
        self.stop()


class DatasetContextManager(object):
    """Inside a run data is brought by the supervisor before the script starts, so there is nothing to do."""

    def __init__(self, config, ignore_already_mounted_error=False, force_mount_with_allow_other=False):
        self._config = config

    def __enter__(self):
        return self

    def __exit__(self, *exc_details):
        return None


class DatastoreContextManager(DatasetContextManager):
    def __init__(self, config):
        super(DatastoreContextManager, self).__init__(config)


def _say(text):
    import sys
    sys.stderr.write(text + "\n")
