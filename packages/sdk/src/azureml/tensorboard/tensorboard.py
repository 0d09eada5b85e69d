import os

from azureml.exceptions import AzureMLException, UserErrorException
from runyard_sdk.home import home_folder
from runyard_sdk.start import executable

_SYNC_SECONDS = 2
_START_SECONDS = 600
_TERMINAL = ("Completed", "Failed", "Canceled")


class Tensorboard:
    """Shows the `logs/` of runs in TensorBoard, during and after the runs.

    TensorBoard runs in an environment of the service, built on first use.
    """

    LOGS_ARTIFACT_PREFIX = "logs/"

    def __init__(self, runs, local_root=None, port=6006, use_display_name=False):
        self._runs = list(runs) if isinstance(runs, (list, tuple)) else [runs]
        if not self._runs and local_root is None:
            raise UserErrorException("runs must hold at least one run, or local_root name a folder of exported logs.")
        self._root, self._port, self._use_display_name = local_root, port, use_display_name
        self._process = self._stopping = None
        self._seen = {}

    def start(self, start_browser=False):
        """Download the logs, start TensorBoard and keep syncing; print and return the URL."""
        import tempfile
        import threading

        if self._process is not None:
            raise UserErrorException("This Tensorboard has been started already; call stop() first.")
        if _answers(self._port):
            raise UserErrorException("port {} is taken by another program, perhaps an earlier Tensorboard: stop() that, "
                                     "or pass another port.".format(self._port))
        self._root = self._root or tempfile.mkdtemp(prefix="tensorboard-")
        os.makedirs(self._root, exist_ok=True)
        self._sync()
        self._launch()
        self._stopping = threading.Event()
        threading.Thread(target=self._keep_syncing, name="runyard-tensorboard", daemon=True).start()
        address = "http://127.0.0.1:{}/".format(self._port)
        print(address)
        if start_browser:
            import webbrowser

            webbrowser.open(address)
        return address

    def stop(self):
        """Stop TensorBoard; no effect if it does not run. The synced files stay."""
        if self._process is None:
            return
        self._stopping.set()
        self._process.terminate()
        self._process.wait()
        self._process = None

    def _launch(self):
        import atexit
        import subprocess
        import time

        command = [executable(home_folder()), "tensorboard", "--logdir", self._root, "--port", str(self._port)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=_variables())
        atexit.register(self.stop)
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(self._port):
            if self._process.poll() is not None:
                code, self._process = self._process.returncode, None
                raise AzureMLException("TensorBoard ended with {} before it answered on port {}. Is the port taken? "
                                       "Its output is above.".format(code, self._port))
            if time.monotonic() > deadline:
                self._process.terminate()
                raise AzureMLException("TensorBoard did not answer within {} seconds.".format(_START_SECONDS))
            time.sleep(0.1)

    def _keep_syncing(self):
        from runyard_sdk.errors import RunyardError

        while not self._stopping.wait(_SYNC_SECONDS):
            try:
                if not self._sync():
                    return
            except (RunyardError, OSError):
                pass  # the service may be restarting; the next round downloads what is missing

    def _sync(self):
        """Download new data; return whether a run is still active."""
        goes_on = False
        for run in self._runs:
            goes_on = run.get_status() not in _TERMINAL or goes_on
            folder = os.path.join(self._root, self._folder_name(run))
            os.makedirs(folder, exist_ok=True)
            for file in run._files():
                if file["path"].startswith(self.LOGS_ARTIFACT_PREFIX) and _is_event_log(file["path"]):
                    self._update_log(run, file, folder)
        return goes_on

    def _folder_name(self, run):
        """One folder below the root, whatever characters the run's id has."""
        name = (self._use_display_name and run.display_name) or run.id
        return run.id if name in (".", "..") else name.replace("/", "_").replace("\0", "_")

    def _update_log(self, run, file, folder):
        state = (file["size"], file.get("sha256"))
        if self._seen.get((run.id, file["path"])) != state:
            below = file["path"][len(self.LOGS_ARTIFACT_PREFIX):]
            _update_file(os.path.join(folder, *below.split("/")), lambda place: run._download(file["path"], place))
            self._seen[(run.id, file["path"])] = state


def _update_file(target, download):
    """Append only: event logs grow, and TensorBoard keeps its file open, so it would not notice a replaced file."""
    import shutil
    import tempfile

    if "tfevents" not in os.path.basename(target) or not os.path.exists(target):
        download(target)
        return
    with tempfile.TemporaryDirectory() as aside:
        fresh = os.path.join(aside, "events")
        download(fresh)
        with open(fresh, "rb") as source, open(target, "ab") as kept:
            source.seek(kept.tell())
            shutil.copyfileobj(source, kept)


def _is_event_log(path):
    return not path.startswith("logs/azureml/")


def _variables():
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def _answers(port):
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
