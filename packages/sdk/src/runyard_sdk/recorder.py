"""Recorders: how writes of a Run object reach run history."""

import os
import time

from runyard_sdk.errors import AlreadyExists, RunyardError
from runyard_sdk.interactive import journal_of
from runyard_sdk.journal import FileJournal, note_cause

_FLUSH_SECONDS = 60


class InRunRecorder:
    """Writes of a script inside its run: lines to the journals folder, files to the uploads folder.

    Only `flush` waits for the service.
    """

    def __init__(self, run_id, variables):
        import atexit

        self._run_id = run_id
        self._journals, self._uploads = variables["RUNYARD_JOURNALS"], variables["RUNYARD_UPLOADS"]
        self.journal = FileJournal(self._journals, run_id, _rank(variables), supervised=True)
        atexit.register(self._finish, _rank(variables))

    def _finish(self, rank):
        self.journal.finish()
        note_cause(self._journals, rank)

    def set_tags(self, tags):
        for key, value in tags.items():
            self.journal.tag(key, value)

    def set_properties(self, properties):
        for key, value in properties.items():
            self.journal.prop(key, value)

    def set_display_name(self, name):
        self.journal.display_name(name)

    def store(self, files, replace=False):
        """Add files to run history: `{path in the run: local path}`. Raises AlreadyExists for a name that was stored
        from inside the run before, unless `replace`; then nothing is stored."""
        if not replace:
            self._take_names(files)
        for name, source in files.items():
            self._place(name, source)

    def flush(self, timeout_seconds=_FLUSH_SECONDS):
        """Wait until the supervisor has delivered everything before; False on timeout."""
        if not self.journal.retry():
            return False
        request = os.path.join(self._journals, "flush-" + os.urandom(8).hex())
        try:
            with open(request, "w"):
                pass
        except OSError:
            return False
        deadline = time.monotonic() + min(timeout_seconds, _FLUSH_SECONDS)
        pause = 0.001
        while os.path.exists(request):
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        return True

    def close(self):
        self.journal.retry()

    def _take_names(self, names):
        """Reserve names with one empty file each, next to the uploads, for all processes of the run: uploads are
        removed once delivered."""
        from hashlib import sha256

        folder = os.path.join(os.path.dirname(os.path.abspath(self._uploads)), "uploaded", self._run_id)
        os.makedirs(folder, exist_ok=True)
        taken = []
        for name in names:
            mark = os.path.join(folder, sha256(name.encode("utf-8", "surrogatepass")).hexdigest())
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                for path in taken:
                    os.remove(path)
                raise AlreadyExists("The run {} has a file {!r} already.".format(self._run_id, name),
                                    hint="Files of a run do not change: choose another name.")
            taken.append(mark)

    def _place(self, name, source):
        """Copy to a temporary name and rename: the supervisor never sees a partial file."""
        import shutil

        target = os.path.join(self._uploads, self._run_id, *name.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        partial = os.path.join(self._uploads, ".part-" + os.urandom(8).hex())
        try:
            shutil.copyfile(source, partial)
            os.replace(partial, target)
        finally:
            if os.path.exists(partial):
                os.remove(partial)


def _rank(variables):
    """Rank of this process in the run; under an mpirun of the script itself only MPI's number is known."""
    given = variables.get("RUNYARD_RANK") or variables.get("OMPI_COMM_WORLD_RANK") or ""
    return given if given.isdigit() else "0"


class RemoteRecorder:
    """Writes to a run from outside it: metrics by a sending thread, everything else at once."""

    def __init__(self, client, run_id):
        from runyard_sdk.client import quoted

        self._client, self._path = client, "/runs/" + quoted(run_id)
        self.journal = journal_of(client, run_id)

    def set_tags(self, tags):
        self._client.patch(self._path, {"tags": tags})

    def set_properties(self, properties):
        self._client.patch(self._path, {"properties": properties})

    def set_display_name(self, name):
        self._client.patch(self._path, {"display_name": name})

    def store(self, files, replace=False):
        """Add files to run history: `{path in the run: local path}`; an existing name is refused unless `replace`."""
        from runyard_sdk.blobs import send_entries

        entries = send_entries(self._client, list(files.items()))
        post = self._client.post_again if replace else self._client.post
        post(self._path + "/files", {"entries": entries, "fail_if_exists": not replace})

    def flush(self, timeout_seconds=300):
        self.journal.flush()
        return True

    def close(self):
        try:
            self.journal.close()
        except RunyardError as error:
            import warnings

            warnings.warn("The last metrics of run {} were not stored: {}".format(self._path, error))
