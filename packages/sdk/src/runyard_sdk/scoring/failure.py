"""Reason why a worker cannot start, for whoever deployed it."""

import os
import re
import sys
import traceback

LONGEST_MESSAGE = 4000
LONGEST_TRACEBACK = 32000
_OUR_PACKAGE = "runyard_sdk.scoring"
_PACKAGE_OF_MODULE = {
    "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil",
    "dotenv": "python-dotenv", "faiss": "faiss-cpu", "fitz": "pymupdf", "google": "protobuf",
    "inference_schema": "inference-schema", "keras_contrib": "keras-contrib", "MySQLdb": "mysqlclient",
    "OpenSSL": "pyopenssl", "PIL": "pillow", "psycopg2": "psycopg2-binary", "serial": "pyserial",
    "skimage": "scikit-image", "sklearn": "scikit-learn", "snappy": "python-snappy", "umap": "umap-learn",
    "yaml": "pyyaml", "zmq": "pyzmq",
}
_CHANGED = re.compile(r"cannot import name '?\"?(\w+)|No module named '?([\w.]+\.[\w.]+)")


class InitFailed(Exception):
    """The model or script cannot be served. `hint` is the next step."""

    def __init__(self, problem, hint=""):
        super(InitFailed, self).__init__(problem)
        self.problem, self.hint = problem, hint


def failure_facts(error, start):
    """Payload of an `F` frame."""
    if isinstance(error, InitFailed):
        problem, hint, cause = error.problem, error.hint, error.__cause__ or error.__context__
    else:
        problem, hint, cause = "Loading failed: %s" % one_line(error), "", error
    return {
        "problem": shortened(problem, LONGEST_MESSAGE),
        "hint": shortened(hint or (hint_for(cause, start) if cause else ""), LONGEST_MESSAGE),
        "traceback": shortened(users_traceback(cause), LONGEST_TRACEBACK) if cause else "",
        "exception": type(cause or error).__name__,
    }


def log_failure(facts):
    """Write the same to the log."""
    sys.stderr.write("\n".join(filter(None, (facts["traceback"].rstrip(), facts["problem"], facts["hint"]))) + "\n")


def one_line(error):
    """`ValueError: the message`; only the name if there is no message."""
    try:
        text = " ".join(_words(error).splitlines())
    except Exception:  # a user's class whose __str__ fails
        text = ""
    return "%s: %s" % (type(error).__name__, text[:LONGEST_MESSAGE]) if text else type(error).__name__


def _words(error):
    """Message of an exception; for azureml's own only the sentence, because their text is long."""
    is_azureml = type(error).__module__.startswith("azureml.") and hasattr(error, "message")
    return str(error.message if is_azureml else error)


def shortened(text, most):
    """Beginning and end of a text longer than about `most` characters."""
    if len(text) <= most:
        return text
    return "%s\n... %d characters are left out here ...\n%s" % (
        text[:most // 2], len(text) - most // 2 * 2, text[-(most // 2):])


def users_traceback(error):
    """Traceback without our own frames above the user's."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames.tb_frame):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def log_exception(error):
    sys.stderr.write(users_traceback(error))


def hint_for(error, start):
    """Next step for the most common errors; else ""."""
    if isinstance(error, ImportError):
        return hint_for_import(error, start.app_root)
    text = str(error)
    if isinstance(error, AttributeError) and "Can't get attribute" in text:
        return ("The pickle names a class or function of the script that saved it. Define it in a module of its own, "
                "put that into the source_directory, and save and register the model again.")
    if isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError)):
        return _what_is_there(start)
    if isinstance(error, MemoryError):
        return "The model does not fit into memory; give memory_gb in the deployment configuration a larger value."
    return ""


def _what_is_there(start):
    held = []
    for model in start.models:
        for where, _, names in os.walk(model.folder):
            held += [os.path.relpath(os.path.join(where, name), start.models_root) for name in sorted(names)]
    listed = ", ".join(held[:20]) + (" and %d more" % (len(held) - 20) if len(held) > 20 else "")
    return "AZUREML_MODEL_DIR is %s; azureml-models holds: %s." % (
        os.environ.get("AZUREML_MODEL_DIR", "not set"), listed or "nothing")


def _is_ours(frame):
    name = frame.f_globals.get("__name__", "")
    return name.startswith((_OUR_PACKAGE, "importlib.")) or (
        name == "__main__" and frame.f_code.co_filename.startswith(os.path.dirname(os.path.abspath(__file__))))


def hint_for_import(error, app_root):
    """What to add to the environment, or where to put the user's own module."""
    module = getattr(error, "name", None) or ""
    top = module.split(".")[0]
    if not top:
        return ""
    if "." in module or not isinstance(error, ModuleNotFoundError):
        return _hint_for_another_version(error, top)
    elsewhere = _below(app_root, top)
    if elsewhere:
        return ("%s is there, but modules are looked up from the top of source_directory and from the entry script's "
                "folder. Import it by its whole path there." % elsewhere)
    package = _PACKAGE_OF_MODULE.get(top, top.replace("_", "-"))
    return ("Add the package to the environment of the InferenceConfig: "
            "environment.python.conda_dependencies.add_pip_package(%r). If %s is a module of yours, put it into "
            "source_directory." % (package, top))


def _hint_for_another_version(error, top):
    if not _CHANGED.search(str(error)):
        return ""
    package = _PACKAGE_OF_MODULE.get(top, top.replace("_", "-"))
    return ("The installed version of %s does not have that. A model saved with another version may ask for it: pin "
            "the version it was saved with, such as '%s==X.Y.Z', in the environment." % (package, package))


def _below(app_root, top):
    """Path of the module in a subfolder of the user's code, if there is one."""
    for where, folders, names in os.walk(app_root):
        folders[:] = [name for name in folders if name != "azureml-models" and not name.startswith(".")]
        if where != app_root and (top + ".py" in names or top in folders):
            return os.path.join(os.path.relpath(where, app_root), top + ".py" if top + ".py" in names else top)
    return ""
