import os

from azureml.data.data_reference import DataReference, checked_path
from azureml.exceptions import UserErrorException

_BATCH_FILES = 256
_BATCH_BYTES = 256 * 1000 * 1000


class StoredFiles(object):
    """Upload and download of datastores that hold files; mixin of AbstractDatastore."""

    def path(self, path=None, data_reference_name=None):
        return DataReference(self, data_reference_name, path)

    def as_mount(self):
        return DataReference(self).as_mount()

    def as_download(self, path_on_compute=None):
        return DataReference(self).as_download(path_on_compute)

    def as_upload(self, path_on_compute=None):
        return DataReference(self).as_upload(path_on_compute)

    def upload(self, src_dir, target_path=None, overwrite=False, show_progress=True):
        """Upload every file below src_dir; existing files are skipped unless `overwrite`. Returns a DataReference."""
        return self._upload_folder(src_dir, target_path, overwrite, show_progress)

    def upload_files(self, files, relative_root=None, target_path=None, overwrite=False, show_progress=True):
        """Upload these files, named by their path below relative_root (default: their common folder)."""
        if isinstance(files, str) or not files:
            raise UserErrorException("files must be a list of paths with at least one path, got %r." % (files,))
        missing = [path for path in files if not os.path.isfile(path)]
        if missing:
            raise UserErrorException("files names %r, which is not a file." % (missing[0],))
        root = relative_root or os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in files])
        return self._send([str(path) for path in files], root, target_path, overwrite, show_progress)

    def download(self, target_path, prefix=None, overwrite=False, show_progress=True):
        """Download files, below `prefix` if given, to target_path under their full path, in parallel.

        Existing files are skipped unless `overwrite`. Returns the number of downloaded files.
        """
        from azureml.data._service_files import local_path, total_size
        from runyard_sdk.progress import Progress
        files = [dict(file, target=local_path(target_path, file["path"])) for file in self._files(prefix)]
        with Progress("Downloading", len(files), total_size(files), is_shown=show_progress) as progress:
            show = progress.print_line if show_progress else _quiet
            if not files:
                show("There is nothing to download%s." % (" below %r" % prefix if prefix else ""))
            wanted = []
            for file in files:
                if os.path.exists(file["target"]) and not overwrite:
                    show("Target already exists. Skipping download for %s" % file["target"])
                else:
                    wanted.append(file)
            return self._fetch(wanted, len(files), show, progress)

    def _bind(self, inputs):
        return DataReference(self)._bind(inputs)

    def _upload_folder(self, src_dir, target_path, overwrite, show_progress, pattern=None):
        if not os.path.isdir(src_dir):
            raise UserErrorException("src_dir %r is not a folder." % str(src_dir))
        files = _files_below(str(src_dir)) if pattern is None else _matching(str(src_dir), pattern)
        return self._send(files, str(src_dir), target_path, overwrite, show_progress)

    def _send(self, files, root, target_path, overwrite, show_progress):
        from runyard_sdk.progress import Progress
        target_path = checked_path("target_path", target_path)
        root = os.path.join(os.path.abspath(root), "")
        placed = [(path, _placed(path, root, target_path)) for path in files]
        size = sum(os.path.getsize(path) for path in files) if show_progress else None
        with Progress("Uploading", len(placed), size, is_shown=show_progress) as progress:
            show = progress.print_line if show_progress else _quiet
            show("Uploading an estimated of %d files" % len(placed))
            sent = 0
            for path, name, is_new in self._stored(placed, overwrite, show, progress):
                if is_new:
                    sent += 1
                    show("Uploaded %s, %d files out of an estimated total of %d" % (path, sent, len(placed)))
                else:
                    show("Target already exists. Skipping upload for %s" % name)
            show("Uploaded %d files" % sent)
        return DataReference(self, path_on_datastore=target_path)

    def _stored(self, placed, overwrite, show, progress):
        """Upload the files; generate (path, name, whether it was uploaded) of each."""
        # Mounts of a run are visible to its own processes only, so a run sends bytes.
        if "RUNYARD_ATTEMPT" not in os.environ and self.workspace._client.shares_files:
            return self._copied_by_path(placed, overwrite, show, progress)
        return self._sent(placed, overwrite, show, progress)

    def _copied_by_path(self, placed, overwrite, show, progress):
        """Pass paths to a service that sees this machine's files."""
        route = self.workspace._path("datastores", self.name, "adopt")
        for batch in _batches(placed):
            for path, _ in batch:
                show("Uploading %s" % path)
            written = set(self.workspace._client.post_again(route, {
                "items": [[os.path.abspath(path), name] for path, name in batch], "overwrite": overwrite})["written"])
            for path, name in batch:
                progress.add_bytes(os.path.getsize(path) if progress.size else 0)
                progress.file_done()
                yield path, name, name in written

    def _sent(self, placed, overwrite, show, progress):
        """Send bytes, over several connections."""
        from runyard_sdk.client import quoted_path
        from runyard_sdk.errors import AlreadyExists
        from runyard_sdk.parallel import each_in_parallel

        def put(item):
            show("Uploading %s" % item[0])
            try:
                self.workspace._client.upload(self._route() + "/" + quoted_path(item[1]), item[0],
                                              on_bytes=progress.add_bytes, overwrite=overwrite)
            except AlreadyExists:
                return False
            finally:
                progress.file_done()
            return True

        for (path, name), is_new in each_in_parallel(put, placed):
            yield path, name, is_new

    def _fetch(self, files, total, show, progress):
        from runyard_sdk.client import quoted_path
        from runyard_sdk.parallel import each_in_parallel

        def download(file):
            show("Downloading %s" % file["path"])
            self.workspace._client.download(self._route() + "/" + quoted_path(file["path"]), file["target"],
                                            file["size"], file.get("modified_at") or "", progress.add_bytes)

        fetched = 0
        for file, _ in each_in_parallel(download, files):
            fetched += 1
            progress.file_done()
            show("Downloaded %s, %d files out of an estimated total of %d" % (file["path"], fetched, total))
        return fetched

    def _files(self, prefix=None):
        """Files below the folder `prefix`, or that one file, as {"path", "size", "modified_at"}, sorted."""
        prefix = (checked_path("prefix", prefix) or "").strip("/")
        listed = self.workspace._client.get(self._route(), prefix=prefix or None)["files"]
        found = [file for file in listed
                 if not prefix or file["path"] == prefix or file["path"].startswith(prefix + "/")]
        return sorted(found, key=lambda file: file["path"])

    def _route(self):
        return self.workspace._path("datastores", self.name, "files")


def _batches(placed):
    """Lists that the service copies in one request, small enough that a progress bar moves."""
    batch, size = [], 0
    for path, name in placed:
        batch.append((path, name))
        size += os.path.getsize(path)
        if len(batch) == _BATCH_FILES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _files_below(folder):
    """Every file, following links to folders, except links to a parent folder."""
    found = []

    def walk(place, above):
        items = sorted(os.scandir(place), key=lambda item: item.name)
        found.extend(item.path for item in items if item.is_file())
        for item in items:
            real = os.path.realpath(item.path) if item.is_dir() else None
            if real is not None and real not in above:
                walk(item.path, above | {real})

    walk(folder, {os.path.realpath(folder)})
    return found


def _matching(folder, pattern):
    import glob
    if not isinstance(pattern, str) or os.path.isabs(pattern) or ".." in pattern.split("/") or "\x00" in pattern:
        raise UserErrorException("pattern must be a glob below src_dir such as '**/*.csv', got %r." % (pattern,))
    found = glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True)
    return sorted(path for path in found if os.path.isfile(path))


def _placed(path, root, target_path):
    """Name of a local file on the datastore; `root` is absolute and ends with a slash."""
    whole = os.path.abspath(path)
    if not whole.startswith(root):
        raise UserErrorException("%r lies outside of relative_root %r." % (path, root))
    relative = whole[len(root):].replace(os.sep, "/")
    try:
        relative.encode("utf-8")
    except UnicodeEncodeError:
        raise UserErrorException("The file name %r is not UTF-8; rename it." % path)
    return "/".join(part for part in ((target_path or "").strip("/"), relative) if part)


def _quiet(text):
    """Print function that prints nothing."""
