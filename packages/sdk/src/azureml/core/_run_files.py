import os

from azureml._paths import below_folder
from azureml._service import translated
from azureml.core._submission import send_with_snapshot
from azureml.exceptions import ModelPathNotFoundException, SnapshotException, UserErrorException
from runyard_sdk.blobs import hashed
from runyard_sdk.client import quoted, quoted_path
from runyard_sdk.errors import AlreadyExists, BlobDamaged, NotFound, RunyardError


class RunFiles:
    """Files of a run: ./outputs and ./logs, system logs, and uploaded files."""

    def upload_file(self, name, path_or_stream, datastore_name=None):
        """Upload one file to run history as `name`. `path_or_stream` is a path or a readable object."""
        name = checked_artifact(name)
        if hasattr(path_or_stream, "read"):
            self._upload_stream(name, path_or_stream)
        elif isinstance(path_or_stream, (str, os.PathLike)):
            self._store({name: _existing_file(str(path_or_stream))})
        else:
            raise UserErrorException("path_or_stream must be a path or an open file, got {}.".format(
                type(path_or_stream).__name__))

    def upload_files(self, names, paths, return_artifacts=False, timeout_seconds=None, datastore_name=None):
        """Upload several files to run history, `names[i]` from `paths[i]`."""
        if isinstance(names, str) or isinstance(paths, str) or len(names) != len(paths):
            raise TypeError("names and paths must be lists of the same length, got {!r} and {!r}.".format(names, paths))
        self._store({checked_artifact(name): _existing_file(path) for name, path in zip(names, paths)})
        return list(names) if return_artifacts else None

    def upload_folder(self, name, path, datastore_name=None):
        """Upload the files of a folder to run history as `name/...`."""
        if not os.path.isdir(path):
            raise UserErrorException("path must be a folder, and {!r} is none.".format(path))
        self._store(files_below(path, checked_artifact(name)))

    def get_file_names(self):
        """Paths of all files of the run, sorted."""
        return [file["path"] for file in self._files()]

    def download_file(self, name, output_file_path=None, _validate_checksum=False):
        """Download one file to `output_file_path` (default: its base name in the working folder; may be a folder)."""
        if name not in self.get_file_names():
            raise UserErrorException("File {!r} is not among the files of run {}. Its files: {}.".format(
                name, self.id, _some(self.get_file_names())))
        target = output_file_path or os.path.basename(name)
        if os.path.isdir(target) or str(target).endswith("/"):
            target = os.path.join(target, os.path.basename(name))
        self._download(name, target)

    def download_files(self, prefix=None, output_directory=None, output_paths=None, batch_size=100,
                       append_prefix=True, timeout_seconds=None):
        """Download the files below `prefix` to `output_directory`, with their full path unless `append_prefix` is
        False."""
        folder = prefix if not prefix or prefix.endswith("/") else prefix + "/"
        names = [name for name in self.get_file_names() if not folder or name.startswith(folder) or name == prefix]
        if output_paths is not None and len(output_paths) != len(names):
            raise UserErrorException("output_paths has {} paths, and {} files match the prefix {!r}.".format(
                len(output_paths), len(names), prefix))
        damaged = []
        for position, name in enumerate(names):
            below = name if append_prefix or not folder else name[len(folder):]
            chosen = None if output_paths is None else os.path.join(output_directory or ".", output_paths[position])
            target = chosen or below_folder(output_directory or ".", below)
            try:
                self._download(name, target)
            except BlobDamaged as error:  # download the remaining files
                damaged.append(error)
        raise_damaged(self._client, damaged, len(names))

    def get_all_logs(self, destination=None):
        """Download all logs below `destination` (default: a folder named after the run); return their paths."""
        folder = destination or os.path.join(os.getcwd(), self.id)
        written = []
        for name in self._log_names():
            target = below_folder(folder, name)
            self._download(name, target)
            written.append(target)
        return written

    def get_snapshot_id(self):
        """Id of the snapshot of the source folder. Raises SnapshotException if there is none."""
        found = self._fresh().get("snapshot_id")
        if not found:
            raise SnapshotException("Run {} has no snapshot: it was started without a source folder.".format(self.id))
        return found

    def restore_snapshot(self, snapshot_id=None, path=None):
        """Download the snapshot as `<id>.zip` into `path` (default: the working folder); return its path."""
        snapshot_id = snapshot_id or self.get_snapshot_id()
        target = os.path.join(path or os.getcwd(), snapshot_id + ".zip")
        self._client.download("/snapshots/{}/zip".format(quoted(snapshot_id)), target)
        return target

    def take_snapshot(self, file_or_folder_path):
        """Upload a file or folder as the run's snapshot; return its id. Raises SnapshotException if the run has one."""
        if not os.path.exists(file_or_folder_path):
            raise UserErrorException("file_or_folder_path {!r} does not exist.".format(file_or_folder_path))
        if self._fresh().get("snapshot_id"):
            raise SnapshotException("Run {} has a snapshot already, and a run has one at most.".format(self.id))
        try:
            self._record = send_with_snapshot(self._client, file_or_folder_path, lambda entries: self._client.put(
                self._path + "/snapshot", {"snapshot": entries}))
        except AlreadyExists as error:
            raise SnapshotException(str(error))
        return self._record["snapshot_id"]

    def register_model(self, model_name, model_path=None, tags=None, properties=None, model_framework=None,
                       model_framework_version=None, description=None, datasets=None, sample_input_dataset=None,
                       sample_output_dataset=None, resource_configuration=None, **kwargs):
        """Register the run's file or folder `model_path` (default: `model_name`) as a model.

        Works during and after the run. Raises ModelPathNotFoundException if there is no such file.
        """
        from azureml.core.model import Model

        path = checked_artifact(model_path or model_name)
        self.flush()
        names = self.get_file_names()
        if not any(name == path or name.startswith(path + "/") for name in names):
            raise ModelPathNotFoundException(
                "model_path {!r} is not among the files of run {}. Its files: {}.".format(path, self.id, _some(names)))
        return Model._register_from_run(
            self, model_name, path, tags=tags, properties=properties, model_framework=model_framework,
            model_framework_version=model_framework_version, description=description, datasets=datasets,
            sample_input_dataset=sample_input_dataset, sample_output_dataset=sample_output_dataset,
            resource_configuration=resource_configuration)

    def _get_outputs_datapath(self):
        """Copy the run's outputs to the default datastore, for resume_from and data references.

        Notebooks call it although it is private. Each call updates the copy.
        """
        import tempfile

        from azureml.data.datapath import DataPath

        if not any(name.startswith("outputs/") for name in self.get_file_names()):
            raise UserErrorException("Run {} has no files in outputs/ to go on from.".format(self.id))
        store = self.experiment.workspace.get_default_datastore()
        target = "ExperimentRun/dcid.{}/outputs".format(self.id)
        with tempfile.TemporaryDirectory() as folder:
            self.download_files("outputs", folder)
            store.upload(os.path.join(folder, "outputs"), target, overwrite=True, show_progress=False)
        return DataPath(store, target)

    def _store(self, files):
        try:
            self._recorder.store(files)
        except RunyardError as error:
            raise translated(error)

    def _files(self):
        return self._client.get(self._path + "/files")["files"]

    def _log_names(self):
        return sorted(self._client.get(self._path + "/logs"))

    def _download(self, name, target):
        self._client.download("{}/files/{}".format(self._path, quoted_path(name)), target)

    def _upload_stream(self, name, stream):
        import tempfile

        with tempfile.NamedTemporaryFile() as copy:
            while True:
                block = stream.read(1 << 20)
                if not block:
                    break
                copy.write(block if isinstance(block, bytes) else block.encode("utf-8"))
            copy.flush()
            self._store({name: copy.name})


def files_below(folder, name):
    """`{name/path: local path}` of every file below a folder."""
    found = {}
    for place, _, items in os.walk(folder):
        for item in items:
            full = os.path.join(place, item)
            found["{}/{}".format(name, os.path.relpath(full, folder).replace(os.sep, "/"))] = full
    return found


def checked_artifact(name):
    if not isinstance(name, str) or not name.strip("/") or "\0" in name:
        raise UserErrorException("name must be a path in the run such as 'outputs/model.pkl', got {!r}.".format(name))
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if name[0] in "/\\" or name[1:2] == ":" or ".." in parts or not parts:
        raise UserErrorException(
            "name must stay inside the run: no leading '/', no drive letter and no '..', got {!r}.".format(name))
    return "/".join(parts)


def _existing_file(path):
    if not os.path.isfile(path):
        raise UserErrorException("There is no file {!r} to upload.".format(path))
    return os.path.abspath(path)


def _some(names, most=20):
    shown = ", ".join(names[:most]) or "none"
    return shown if len(names) <= most else "{} and {} more".format(shown, len(names) - most)


def download_verified(client, sha256, target, named):
    """Download a blob to `target` and verify its hash. Raises BlobDamaged, and leaves no file."""
    try:
        client.download("/blobs/" + sha256, target)
    except (BlobDamaged, NotFound) as error:
        raise BlobDamaged("The file {} is missing or damaged on the service's disk.".format(named), hint=error.hint)
    if hashed(target)[0] != sha256:
        os.unlink(target)
        raise BlobDamaged("The file {} did not arrive as it was registered.".format(named), hint="Download it again.")


def raise_damaged(client, damaged, count):
    """Raise the errors of damaged files, if any, after the others were written."""
    if damaged:
        problem = "{} of {} files could not be had; the others were written. {}".format(
            len(damaged), count, " ".join(error.problem for error in damaged[:5]))
        raise client.transport.translate(BlobDamaged(problem, hint=damaged[0].hint))
