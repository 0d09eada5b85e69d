"""Registered files, found at any depth of the model's folder."""
import os

from runyard_sdk.scoring.failure import InitFailed

LISTED = 12


def only_model(start):
    """Model of a web service without code."""
    if len(start.models) != 1:
        raise InitFailed("%d models are deployed without code; it can be one." % len(start.models),
                         "Pass one model to Model.deploy, or an inference_config with a scoring script.")
    return start.models[0]


def all_files(model):
    """Paths of all files of the model, the topmost first."""
    found = [os.path.join(folder, name) for folder, _, names in os.walk(model.folder) for name in names
             if not name.startswith(".")]
    return sorted(found, key=lambda path: (path.count(os.sep), path))


def with_suffix(model, suffixes):
    """Paths with this suffix, case-insensitive."""
    return [path for path in all_files(model) if path.lower().endswith(tuple(suffixes))]


def inside(model, path):
    """Path relative to the model, as whoever registered it knows it."""
    return os.path.relpath(path, model.folder)


def only_one(model, candidates, what, example):
    """The only candidate. Raises InitFailed, listing the files, if there is none, or several."""
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise InitFailed(
            "Model %s:%d holds %d files that could be the %s: %s." % (
                model.name, model.version, len(candidates), what, listing(model, candidates)),
            "Register the one to be served: model_path='%s'." % inside(model, candidates[0]))
    raise InitFailed(
        "Model %s:%d holds no %s; it holds: %s." % (
            model.name, model.version, what, listing(model, all_files(model)) or "nothing"),
        "Save it as %s, register that file or its folder, and deploy again." % example)


def listing(model, paths):
    names = [inside(model, path) for path in paths[:LISTED]]
    return ", ".join(names) + (" and %d more" % (len(paths) - LISTED) if len(paths) > LISTED else "")
