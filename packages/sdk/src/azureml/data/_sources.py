"""What `path` of every from_... means: the sources of a dataset, as they are stored."""
from azureml.data.abstract_datastore import AbstractDatastore
from azureml.data.data_reference import DataReference, checked_path
from azureml.data.datapath import DataPath
from azureml.exceptions import UserErrorException

_WANTED = ("path must be a web address, a (datastore, 'relative/path') tuple, a DataPath or a DataReference, or a "
           "list of these; got %r.%s")


def sources_of(path):
    """The stored forms of the items of `path`, and the workspace of their datastores (None for web addresses)."""
    items = path if isinstance(path, list) else [path]
    if not items:
        raise UserErrorException(_WANTED % (path, ""))
    sources = [source_of(item) for item in items]
    if len({"url" in source for source, _ in sources}) > 1:
        raise UserErrorException("path must be all web addresses or all datastore paths, not both.")
    workspaces = [workspace for _, workspace in sources if workspace is not None]
    return [source for source, _ in sources], workspaces[0] if workspaces else None


def source_of(item):
    """The stored form of one item, and the workspace of its datastore."""
    if isinstance(item, str):
        return _web_source(item), None
    datastore, path = _place_of(item)
    if not isinstance(datastore, AbstractDatastore):
        raise UserErrorException(_WANTED % (item, ""))
    checked = checked_path("path", path)
    return {"datastore": datastore.name, "path": (checked or "").strip("/")}, datastore.workspace


def _place_of(item):
    if isinstance(item, DataReference):
        return item.datastore, item.path_on_datastore
    if isinstance(item, DataPath):
        return item._datastore, item.path_on_datastore
    return item if isinstance(item, tuple) and len(item) == 2 else (None, None)


def _web_source(text):
    from urllib.parse import urlsplit
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme.lower() in ("http", "https") and parts.netloc and not any(ord(char) <= 32 for char in text):
        return {"url": text}
    raise UserErrorException(_WANTED % (text, " A local file must be uploaded first, with datastore.upload_files."))
