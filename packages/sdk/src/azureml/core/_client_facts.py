"""Which Python and which packages a model was registered with, found without importing anything."""
import os
import sys

_TENSORFLOW = (("tensorflow", "tensorflow-cpu", "tensorflow-gpu"), ("keras", "numpy"))
_PACKAGES = {
    "ScikitLearn": (("scikit-learn",), ("numpy", "scipy", "joblib", "pandas", "xgboost", "lightgbm", "catboost",
                                        "imbalanced-learn")),
    "TensorFlow": _TENSORFLOW,
    "TfKeras": _TENSORFLOW,
    "PyTorch": (("torch",), ("torchvision", "numpy")),
    "Onnx": (("onnx", "onnxruntime"), ("numpy",)),
    "Chainer": (("chainer",), ("numpy",)),
}
"""Of each framework its own packages, and those that its models lean on."""


def client_facts(framework):
    """{"python": minor version, "packages": {name: version}} of this process, for a model of that framework.

    No packages where the framework is not here: then the model was made elsewhere. Those of every framework that is
    here where the model's own is not said.
    """
    kinds = [_PACKAGES[framework]] if framework in _PACKAGES else list(_PACKAGES.values())
    found, told = _installed({name for own, others in kinds for name in own + others}), {}
    for own, others in kinds:
        if any(name in found for name in own):
            told.update((name, found[name]) for name in own + others if name in found)
    return {"python": "%d.%d" % sys.version_info[:2], "packages": told}


def _installed(names):
    """Versions as the first folder of sys.path that has the package says: that is where it is imported from."""
    wanted, found = {_comparable(name): name for name in names}, {}
    for folder in sys.path:
        for entry in _entries(folder):
            stem, kind = os.path.splitext(entry)
            if kind not in (".dist-info", ".egg-info"):
                continue
            name, _, version = stem.partition("-")
            known = wanted.get(_comparable(name))
            if known and version:
                found.setdefault(known, version.split("-py")[0])
    return found


def _entries(folder):
    try:
        return os.listdir(folder or ".")
    except OSError:  # a zip, or a path that is not there
        return []


def _comparable(name):
    return name.lower().replace("_", "-").replace(".", "-")
