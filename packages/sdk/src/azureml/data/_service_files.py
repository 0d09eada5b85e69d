"""The files of a dataset, as the service finds and reads them."""
import os

from azureml._paths import below_folder


def workspace_of(dataset):
    """Whose service reads the dataset: its own workspace, else (web addresses have none) the nearest one."""
    if dataset._workspace is not None:
        return dataset._workspace
    from azureml.core.workspace import nearest_workspace
    return nearest_workspace()


def resolved(dataset, limit=None):
    """Each file as {"path", "size", "etag", "modified_at"}, in order; the first ones with a limit."""
    return resolution(dataset, limit)["files"]


def resolution(dataset, limit=None):
    """The service's whole answer: "files", "is_one_file" and, of a pinned version, "changes" as sentences."""
    from runyard_sdk.submitter import network_variables
    workspace = workspace_of(dataset)
    asked = {"body": dataset._body()} if dataset._asset is None else {"id": dataset.id}
    if limit is not None:
        asked["limit"] = limit
    return workspace._client.post_again(
        workspace._path("datasets", "resolve"), dict(asked, variables=network_variables()))


def fetched(dataset, paths, folder, threads=8):
    """Bring files of these paths into a folder, in parallel; their absolute paths, in the order given."""
    known = {file["path"]: file for file in resolved(dataset)}
    return fetch_all(dataset, [known[path] for path in paths], folder, threads=threads)


def fetch_all(dataset, files, folder, threads=8, missing=None, title="Downloading"):
    """Bring resolved files into a folder, each whole or not at all; their absolute paths, in order.

    With `missing`, a list, files that are not there any more are put into it instead of being an error.
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
        def bring(file):
            try:
                workspace._client.download(route + "/" + quoted_path(file["path"]), targets[file["path"]], file["size"],
                                           file.get("etag") or "", progress.came, headers)
            except NotFound:
                if missing is None:
                    raise
                missing.append(file["path"])
            progress.file_done()
        for _ in each_in_parallel(bring, files, threads):
            pass
    absent = set(missing or ())
    return [targets[file["path"]] for file in files if file["path"] not in absent]


def local_path(folder, path):
    """Where a file of the service lies below a local folder; UserErrorException for one that would leave it."""
    return below_folder(os.path.abspath(folder), path)


def total_size(files):
    """The bytes of all files; None where a web server does not tell the size of one."""
    sizes = [file["size"] for file in files]
    return None if None in sizes else sum(sizes)
