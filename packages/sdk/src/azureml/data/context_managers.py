import os

from azureml.core._run_sections import Data, DataLocation, DataReferenceConfiguration, Dataset  # noqa: F401
from azureml.core.datastore import Datastore  # noqa: F401
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.exceptions import AzureMLException, RunEnvironmentException, UserErrorException  # noqa: F401


class MountedFiles(object):
    """A dataset's files in a folder, read-only, from start() to stop(); also a context manager giving itself."""

    def __init__(self, dataset, mount_point=None):
        if mount_point is not None and os.path.isdir(mount_point) and os.listdir(mount_point):
            raise UserErrorException("mount_point %r must be an empty folder." % str(mount_point))
        self._dataset = dataset
        self._is_ours = mount_point is None
        self._mount_point = mount_point

    @property
    def mount_point(self):
        if self._mount_point is None:
            import tempfile
            self._mount_point = tempfile.mkdtemp()
        return self._mount_point

    def start(self):
        for path in self._dataset.download(self.mount_point):
            os.chmod(path, 0o444)

    def stop(self):
        """Remove the files; a folder that was given stays, empty."""
        import shutil
        if not os.path.isdir(self.mount_point):
            return
        if self._is_ours:
            shutil.rmtree(self.mount_point)
            return
        for name in os.listdir(self.mount_point):
            path = os.path.join(self.mount_point, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

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
