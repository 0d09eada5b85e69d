"""Models inside a scoring process: no service is asked."""
import os

_VARIABLE = "RUNYARD_MODELS_ROOT"


def is_scoring():
    return bool(os.environ.get(_VARIABLE))


def deployed():
    """[(name, version)] of the models that this process serves, versions growing."""
    root = os.environ.get(_VARIABLE, "")
    found = []
    for name in sorted(_entries(root)):
        versions = [int(version) for version in _entries(os.path.join(root, name)) if version.isdigit()]
        found += [(name, version) for version in sorted(versions)]
    return found


def find_model(name, version=None):
    """The path of the model's file or folder, its newest deployed version by default; None where it is not here."""
    from runyard_sdk.scoring.start import ServedModel
    versions = [there for known, there in deployed() if known == name and version in (None, there, str(there))]
    if not versions:
        return None
    folder = os.path.join(os.environ[_VARIABLE], name, str(versions[-1]))
    return ServedModel(name, versions[-1], folder).path


def _entries(folder):
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
