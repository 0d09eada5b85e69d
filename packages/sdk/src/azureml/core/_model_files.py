"""Files of a model: what a local path holds, and where they land on download."""
import os

from azureml._paths import below_folder
from azureml._service import translated
from azureml.exceptions import UserErrorException
from runyard_sdk.errors import RunyardError
from runyard_sdk.ignore import no_rules
from runyard_sdk.snapshot import walk


def local_files(model_path, child_paths=None):
    """[(path in the model, local path)] of a file or folder; the last segment of model_path stays as root."""
    if not os.path.exists(model_path):
        raise FileNotFoundError("model_path %r names no file or folder." % str(model_path))
    whole = os.path.abspath(model_path)
    root = os.path.dirname(whole)
    chosen = [_child(whole, child) for child in child_paths] if child_paths else [whole]
    found = []
    for path in chosen:
        if not os.path.exists(path):
            raise FileNotFoundError("child_paths names %r, which is not in model_path %r." % (path, str(model_path)))
        found.extend(_below(path))
    if not found:
        raise UserErrorException("model_path %r is a folder without files." % str(model_path))
    return [(os.path.relpath(path, root).replace(os.sep, "/"), path) for path in found]


def target_paths(files, target_dir):
    """[(sha256, mode, local target)] for a model's entries; UserErrorException for one that would leave the folder."""
    return [(sha256, mode, below_folder(target_dir, path)) for path, sha256, _, mode in files]


def common_root(paths):
    """The file of a model with one file, else the folder that all of its files lie in."""
    return paths[0] if len(paths) == 1 else os.path.commonpath(paths)


def path_below(folder, files):
    """What get_model_path says of a model whose files lie in the folder: the last segment of the path that it was
    registered from. Of a folder with one file that is the folder, as in a scoring script; download() says the file."""
    segments = {entry[0].split("/")[0] for entry in files}
    return os.path.join(folder, segments.pop()) if len(segments) == 1 else folder


def _child(whole, child):
    path = os.path.normpath(os.path.join(whole, child))
    if path != whole and not path.startswith(os.path.join(whole, "")):
        raise UserErrorException("child_paths names %r, which lies outside of model_path %r." % (child, whole))
    return path


def _below(path):
    """A file itself; of a folder all files, links followed. Sockets, pipes and devices are left out."""
    if os.path.isfile(path):
        return [path]
    if not os.path.isdir(path):
        raise UserErrorException("model_path %r is neither a file nor a folder." % path)
    try:
        return sorted(full for _, full, _ in walk(path, no_rules(path)))
    except RunyardError as error:
        raise translated(error)
