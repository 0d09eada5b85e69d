"""Mounting a dataset in this process's folder: the `runyard` program does it, for as long as we hold its input."""
import json

_SECONDS_TO_END = 60
_SECONDS_TO_NOTICE = 5


class MountFailed(Exception):
    """The files cannot be mounted here; its text says why, as a sentence."""


def start_mount(dataset, mount_point):
    """Mount the files read-only and return, once they are there, an object with stop(). Raises MountFailed."""
    from azureml.data._service_files import workspace_of
    workspace = workspace_of(dataset)
    if not workspace._client.shares_files:
        raise MountFailed("The Runyard service runs on another machine, and nothing can be mounted from there.")
    mount = _Mount(workspace.name, dataset._saved(workspace).id, mount_point)
    if not mount.is_there():
        mount.stop()
        raise MountFailed("Mounting failed: %s" % mount.last_words())
    mount.show_first_reads(dataset.name or "data")
    return mount


class _Mount(object):
    """A process that unmounts when its input ends, and so when we do."""

    def __init__(self, workspace_name, dataset_id, mount_point):
        import subprocess
        import tempfile

        from runyard_sdk.errors import ServiceUnavailable
        from runyard_sdk.home import home_folder
        from runyard_sdk.start import executable, program_variables
        self._said = tempfile.TemporaryFile()
        self._mount_point = mount_point
        self._size, self._watching = None, None
        try:
            self._process = subprocess.Popen(
                [executable(home_folder()), "data", "mount", "--workspace", workspace_name, "-o", "json", dataset_id,
                 mount_point], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
                env=program_variables(home_folder()), start_new_session=True)
        except (ServiceUnavailable, OSError) as error:
            raise MountFailed("The program 'runyard' could not be started: %s" % error)

    def is_there(self):
        """Wait until the files are mounted, or the process has given up."""
        try:
            answer = json.loads(self._process.stdout.readline().decode("utf-8"))
        except ValueError:
            return False
        self._size = answer.get("size")
        return "mounted" in answer

    def show_first_reads(self, title):
        """A bar for what is fetched while it is read, as long as the mount lasts."""
        import threading
        self._watching = threading.Thread(target=self._watch, args=(title,))
        self._watching.daemon = True
        self._watching.start()

    def _watch(self, title):
        from runyard_sdk.progress import Progress
        with Progress(title, size=self._size) as progress:
            for line in self._process.stdout:
                progress.came(json.loads(line.decode("utf-8")).get("read", 0))

    def stop(self):
        from subprocess import TimeoutExpired
        self._process.stdin.close()
        try:
            self._process.wait(_SECONDS_TO_NOTICE)
        except TimeoutExpired:  # a forked child of ours may hold the other end of its input
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
        self._said.seek(0)
        lines = [line for line in self._said.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else "'runyard data mount' gave no reason."


def _unmount_dead(mount_point):
    """Take away what a killed process had mounted: every look at that folder would fail."""
    import subprocess
    for command in (["fusermount3", "-u", "-z", "--", mount_point], ["umount", "-l", "--", mount_point]):
        try:
            if subprocess.call(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL) == 0:
                return
        except OSError:
            continue
