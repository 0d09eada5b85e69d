"""Files of a dataset, resolved and downloaded through the service."""
import os

from azureml._paths import below_folder


def workspace_of(dataset):
    """Workspace whose service reads the dataset: its own, else (URLs have none) the nearest one."""
    if dataset._workspace is not None:
        return dataset._workspace
    from azureml.core.workspace import nearest_workspace
    return nearest_workspace()


def resolved(dataset, limit=None):
    """Files as {"path", "size", "etag", "modified_at"}, in order; the first `limit` of them if given."""
    return resolution(dataset, limit)["files"]


def resolution(dataset, limit=None):
    """Full answer of the service: "files", "is_one_file" and, for a pinned version, "changes" as sentences."""
    from runyard_sdk.submitter import network_variables
    workspace = workspace_of(dataset)
    asked = {"body": dataset._body()} if dataset._asset is None else {"id": dataset.id}
    if limit is not None:
        asked["limit"] = limit
    return workspace._client.post_again(
        workspace._path("datasets", "resolve"), dict(asked, variables=network_variables()))


def fetched(dataset, paths, folder, threads=8):
    """Download files with these paths to a folder, in parallel; return their absolute paths in the given order."""
    known = {file["path"]: file for file in resolved(dataset)}
    return fetch_all(dataset, [known[path] for path in paths], folder, threads=threads)


def fetch_all(dataset, files, folder, threads=8, missing=None, title="Downloading"):
    """Download resolved files to a folder, each completely or not at all; return their absolute paths in order.

    With `missing`, a list, files that no longer exist are appended to it instead of raising.
    """
    from runyard_sdk.client import quoted_path
    from runyard_sdk.errors import NotFound
    from runyard_sdk.parallel import each_in_parallel
    from runyard_sdk.progress import Progress
    from runyard_sdk.submitter import network_headers
    workspace = workspace_of(dataset)
    route = workspace._path("datasets", "by-id", dataset._saved(workspace).id, "files")
    headers = network_headers()
    targets = {file["path"]: local_path(folder, file["path"]) for file in files}
    with Progress(title, len(files), total_size(files)) as progress:
        def download(file):
            try:
                workspace._client.download(route + "/" + quoted_path(file["path"]), targets[file["path"]], file["size"],
                                           file.get("etag") or "", progress.add_bytes, headers)
            except NotFound:
                if missing is None:
                    raise
                missing.append(file["path"])
            progress.file_done()
        for _ in each_in_parallel(download, files, threads):
            pass
    absent = set(missing or ())
    return [targets[file["path"]] for file in files if file["path"] not in absent]


def local_path(folder, path):
    """Local path below a folder for a file of the service. Raises UserErrorException where it would leave the folder.
    """
    return below_folder(os.path.abspath(folder), path)


def total_size(files):
    """Total bytes of the files; None if a web server does not report a size."""
    sizes = [file["size"] for file in files]
    return None if None in sizes else sum(sizes)
