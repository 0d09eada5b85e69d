"""Download of files that a column of a table names."""
import os

from azureml.data._service_files import fetch_all, local_path, resolved, workspace_of
from azureml.data._tables.steps import column_of
from azureml.exceptions import UserErrorException


def downloaded(dataset, stream_column, target_path, overwrite, ignore_not_found):
    """Local path of each file that the column names, in order; None for a missing one."""
    from urllib.parse import unquote
    frame = dataset.keep_columns(stream_column).to_pandas_dataframe()
    kind = dataset._format["column_types"].get(stream_column, {})
    values = [value for value in column_of(frame, stream_column) if value is not None]
    addresses = [unquote(value) if kind.get("escaped") else value for value in values]
    if target_path is None:
        import tempfile
        target_path = tempfile.mkdtemp()
    workspace = workspace_of(dataset)
    found = {address: _fetch(workspace, address, target_path, overwrite, ignore_not_found)
             for address in dict.fromkeys(addresses)}
    return [found[address] for address in addresses]


def _fetch(workspace, address, target_path, overwrite, ignore_not_found):
    from azureml.data.dataset_factory import FileDatasetFactory
    from runyard_sdk.errors import NotFound
    source = _source(workspace, address)
    folder = os.path.join(target_path, _place(address))
    one = FileDatasetFactory.from_files(source, validate=False)
    one._workspace = workspace
    try:
        files = resolved(one)
    except NotFound:
        files = []
    if not files:
        if ignore_not_found:
            return None
        raise UserErrorException("stream_column names %r, which is not there." % address)
    target = local_path(folder, files[0]["path"])
    if os.path.exists(target) and not overwrite:
        raise UserErrorException("%r exists already; pass overwrite=True to replace it." % target)
    missing = []
    fetch_all(one, files[:1], folder, missing=missing if ignore_not_found else None)
    return None if missing else target


def _source(workspace, address):
    from azureml.core.datastore import Datastore
    if not isinstance(address, str):
        raise UserErrorException("stream_column holds %r; it must name files by web addresses or datastore paths." % (
            address,))
    if address.lower().startswith(("http://", "https://")):
        return address
    bare = address[len("AmlDatastore://"):] if address.startswith("AmlDatastore://") else address.lstrip("/")
    if bare.startswith("azureml://") and "/datastores/" in bare:
        bare = bare.partition("/datastores/")[2].replace("/paths/", "/", 1)
    name, _, path = bare.partition("/")
    return Datastore.get(workspace, name), path


def _place(address):
    """Folder of a file below the target, after its URL, without characters that folders cannot have."""
    from urllib.parse import quote
    bare = address.partition("://")[2] or address
    parts = [quote(part, safe=" ()+,;=@~") for part in bare.split("/")[:-1] if part not in ("", ".", "..")]
    return os.path.join(*parts) if parts else ""
