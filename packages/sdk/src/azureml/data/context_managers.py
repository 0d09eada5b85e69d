import json
import os

from azureml._lazy import lazy_names
from azureml.core.datastore import Datastore  # noqa: F401
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.exceptions import AzureMLException, RunEnvironmentException, UserErrorException  # noqa: F401

_SECONDS_TO_END = 60
_SECONDS_TO_NOTICE = 5


class MountedFiles(object):
    """A dataset's files in a folder, read-only, from start() to stop(); also a context manager.

    Where mounting is not possible the files are downloaded into the folder, with a message on stderr.
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
        """Mount the files. A second call does nothing."""
        if self._is_started:
            return
        os.makedirs(self.mount_point, exist_ok=True)
        try:
            self._mounting = _start_mount(self._dataset, self.mount_point)
        except _MountFailed as reason:
            _show("%s The files are downloaded to %s instead." % (reason, self.mount_point))
            for path in self._dataset.download(self.mount_point, overwrite=True):
                os.chmod(path, 0o444)
        self._is_started = True

    def stop(self):
        """Unmount or remove the files; a given folder stays, empty."""
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
    """Does nothing: inside a run the supervisor stages data before the script starts."""

    def __init__(self, config, ignore_already_mounted_error=False, force_mount_with_allow_other=False):
        self._config = config

    def __enter__(self):
        return self

    def __exit__(self, *exc_details):
        return None


class DatastoreContextManager(DatasetContextManager):
    def __init__(self, config):
        super(DatastoreContextManager, self).__init__(config)


def _show(text):
    import sys
    sys.stderr.write(text + "\n")


class _MountFailed(Exception):
    """The files cannot be mounted; the message says why."""


def _start_mount(dataset, mount_point):
    """Mount the files read-only; return an object with stop() once they are there. Raises _MountFailed."""
    from azureml.data._service_files import workspace_of
    workspace = workspace_of(dataset)
    if not workspace._client.shares_files:
        raise _MountFailed("The Runyard service runs on another machine, and nothing can be mounted from there.")
    mount = _Mount(workspace.name, dataset._saved(workspace).id, mount_point)
    if not mount.is_there():
        mount.stop()
        raise _MountFailed("Mounting failed: %s" % mount.last_words())
    mount.show_first_reads(dataset.name or "data")
    return mount


class _Mount(object):
    """A mount process of the `runyard` program, which unmounts when its stdin closes, and so when we exit."""

    def __init__(self, workspace_name, dataset_id, mount_point):
        import subprocess
        import tempfile

        from runyard_sdk.errors import ServiceUnavailable
        from runyard_sdk.home import home_folder
        from runyard_sdk.start import executable, program_variables
        self._stderr = tempfile.TemporaryFile()
        self._mount_point = mount_point
        self._size, self._watching = None, None
        try:
            self._process = subprocess.Popen(
                [executable(home_folder()), "data", "mount", "--workspace", workspace_name, "-o", "json", dataset_id,
                 mount_point], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
                env=program_variables(home_folder()), start_new_session=True)
        except (ServiceUnavailable, OSError) as error:
            raise _MountFailed("The program 'runyard' could not be started: %s" % error)

    def is_there(self):
        """Wait until the files are mounted or the process has failed; return whether they are mounted."""
        try:
            answer = json.loads(self._process.stdout.readline().decode("utf-8"))
        except ValueError:
            return False
        self._size = answer.get("size")
        return "mounted" in answer

    def show_first_reads(self, title):
        """Show a progress bar for files that are downloaded on first read, while the mount lasts."""
        import threading
        self._watching = threading.Thread(target=self._watch, args=(title,))
        self._watching.daemon = True
        self._watching.start()

    def _watch(self, title):
        from runyard_sdk.progress import Progress
        with Progress(title, size=self._size) as progress:
            for line in self._process.stdout:
                progress.add_bytes(json.loads(line.decode("utf-8")).get("read", 0))

    def stop(self):
        from subprocess import TimeoutExpired
        self._process.stdin.close()
        try:
            self._process.wait(_SECONDS_TO_NOTICE)
        except TimeoutExpired:  # a forked child of ours may hold the other end of its stdin
            self._process.terminate()
            try:
                self._process.wait(_SECONDS_TO_END)
            except TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.returncode < 0:
            _unmount_dead(self._mount_point)
        if self._watching is not None:
            self._watching.join()
        self._process.stdout.close()

    def last_words(self):
        self._stderr.seek(0)
        lines = [line for line in self._stderr.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else "'runyard data mount' gave no reason."


def _unmount_dead(mount_point):
    """Unmount what a killed process left: every access to that folder would fail."""
    import subprocess
    for command in (["fusermount3", "-u", "-z", "--", mount_point], ["umount", "-l", "--", mount_point]):
        try:
            if subprocess.call(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL) == 0:
                return
        except OSError:
            continue


# Names that the original module imports, and that v1 code imports from here.
lazy_names(__name__, {name: "azureml.core.runconfig" for name in (
    "Data", "DataLocation", "DataReferenceConfiguration", "Dataset")})
