"""Reading an estimator from its file, and saying why that fails."""
import bz2
import gzip
import lzma
import re
import warnings
import zlib

from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.scorers.model_files import all_files, inside, only_model, only_one, with_suffix

SUFFIXES = (".pkl", ".pickle", ".joblib", ".sav", ".pkl.gz", ".pkl.z", ".joblib.gz", ".joblib.z", ".pkl.compressed")
SERVED = ("predict", "predict_proba", "transform")
SAVED_BY = re.compile(rb"_sklearn_version.{1,12}?([0-9]+\.[0-9]+[0-9a-z.]*)", re.DOTALL)
SEARCHED_BYTES = 256 * 1024 * 1024


def load_estimator(start):
    """The estimator; what it was saved by goes to start.notes where that is another release than the one here."""
    model = only_model(start)
    files = with_suffix(model, SUFFIXES) or all_files(model)[:1 if len(all_files(model)) == 1 else 0]
    path = only_one(model, files, "pickled model", "model.pkl with joblib.dump(model, 'outputs/model.pkl')")
    import sklearn
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator = _read(path)
        except Exception as error:
            raise _failed(inside(model, path), path, error, sklearn.__version__) from error
    start.notes.extend(_about_versions(caught, path, sklearn.__version__))
    if not any(callable(getattr(estimator, name, None)) for name in SERVED):
        raise InitFailed(
            "'%s' holds a %s%s, which can neither predict nor transform." % (
                inside(model, path), type(estimator).__name__, _keys(estimator)),
            "Save the fitted estimator or pipeline itself, or deploy with a scoring script.")
    return estimator


def _read(path):
    try:
        import joblib
    except ImportError:
        import pickle
        with open(path, "rb") as file:
            return pickle.load(file)
    return joblib.load(path)


def _failed(name, path, error, here):
    saved_by = saved_by_release(path)
    problem = "'%s' cannot be loaded by scikit-learn %s: %s" % (name, here, one_line(error))
    if saved_by and saved_by != here:
        return InitFailed(
            "%s. It was saved by scikit-learn %s." % (problem.rstrip("."), saved_by),
            "Register the model with model_framework_version='%s', and deploy again." % saved_by)
    if isinstance(error, ImportError) and getattr(error, "name", None):
        return InitFailed(problem, "The model uses the package of module '%s'. Deploy it with an inference_config "
                                   "whose environment holds that package." % error.name.split(".")[0])
    return InitFailed(problem)


def saved_by_release(path):
    """The release that an estimator in the file names, without loading it; None where none does."""
    try:
        with open(path, "rb") as file:
            data = _unpacked(file.read(SEARCHED_BYTES))
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return None
    found = SAVED_BY.search(data)
    return found.group(1).decode("ascii").rstrip(".") if found else None


def _unpacked(data):
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    if data[:3] == b"BZh":
        return bz2.decompress(data)
    if data[:6] == b"\xfd7zXZ\x00" or data[:3] == b"\x5d\x00\x00":
        return lzma.decompress(data)
    if data[:1] == b"\x78":
        return zlib.decompress(data)
    return data


def _about_versions(caught, path, here):
    if not any("unpickle" in str(one.message) for one in caught):
        return []
    return ["The model was saved by scikit-learn %s and is served by %s. Where results differ, register it with "
            "model_framework_version." % (saved_by_release(path) or "of another version", here)]


def _keys(value):
    if not isinstance(value, dict):
        return ""
    return " (%s)" % ", ".join(repr(key) for key in list(value)[:5])
