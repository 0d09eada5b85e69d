"""Which package brings a module that could not be imported."""
import os
import re

_PACKAGES = {
    "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil",
    "dotenv": "python-dotenv", "faiss": "faiss-cpu", "fitz": "pymupdf", "google": "protobuf",
    "inference_schema": "inference-schema", "keras_contrib": "keras-contrib", "MySQLdb": "mysqlclient",
    "OpenSSL": "pyopenssl", "PIL": "pillow", "psycopg2": "psycopg2-binary", "serial": "pyserial",
    "skimage": "scikit-image", "sklearn": "scikit-learn", "snappy": "python-snappy", "umap": "umap-learn",
    "yaml": "pyyaml", "zmq": "pyzmq",
}
_CHANGED = re.compile(r"cannot import name '?\"?(\w+)|No module named '?([\w.]+\.[\w.]+)")


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
    package = _PACKAGES.get(top, top.replace("_", "-"))
    return ("Add the package to the environment of the InferenceConfig: "
            "environment.python.conda_dependencies.add_pip_package(%r). If %s is a module of yours, put it into "
            "source_directory." % (package, top))


def _hint_for_another_version(error, top):
    if not _CHANGED.search(str(error)):
        return ""
    package = _PACKAGES.get(top, top.replace("_", "-"))
    return ("The installed version of %s does not have that. A model saved with another version may ask for it: pin "
            "the version it was saved with, such as '%s==X.Y.Z', in the environment." % (package, package))


def _below(app_root, top):
    """The module's place in a sub-folder of the user's code, where it has one."""
    for where, folders, names in os.walk(app_root):
        folders[:] = [name for name in folders if name != "azureml-models" and not name.startswith(".")]
        if where != app_root and (top + ".py" in names or top in folders):
            return os.path.join(os.path.relpath(where, app_root), top + ".py" if top + ".py" in names else top)
    return ""
