"""The environments that every workspace has: v1's best known curated names, with packages that install today."""

PREFIX = "AzureML-"
VERSION = "1"

_PYTHON_2020 = "3.6.2"
_TORCHVISION = {"1.0": "0.2.2", "1.1": "0.3.0", "1.2": "0.4.0", "1.3": "0.4.1", "1.4": "0.5.0", "1.5": "0.6.0",
                "1.6": "0.7.0"}
_SERIES = {"TensorFlow": ("1.10", "1.12", "1.13", "2.0", "2.1", "2.2", "2.3"),
           "PyTorch": tuple(sorted(_TORCHVISION)), "Chainer": ("5.1.0",)}
_PLAIN = {
    "Minimal": (_PYTHON_2020, ()),
    "Tutorial": (_PYTHON_2020, ("scikit-learn==0.22.2.post1", "joblib", "pandas", "matplotlib", "tqdm")),
    "Scikit-learn-0.20.3": (_PYTHON_2020, ("scikit-learn==0.20.3", "scipy==1.2.1", "joblib==0.13.2")),
    "Scikit-learn0.24-Cuda11-OpenMpi4.1.0-py36": (_PYTHON_2020, ("scikit-learn==0.24.1", "pandas", "joblib")),
    "sklearn-0.24-ubuntu18.04-py37-cpu": ("3.7", ("scikit-learn==0.24.1", "pandas", "joblib")),
    "sklearn-1.0-ubuntu20.04-py38-cpu": ("3.8", ("scikit-learn==1.0.2", "pandas", "joblib")),
    "tensorflow-2.6-ubuntu20.04-py38-cuda11-gpu": ("3.8", ("tensorflow-gpu==2.6.2", "pandas")),
    "tensorflow-2.7-ubuntu20.04-py38-cuda11-gpu": ("3.8", ("tensorflow-gpu==2.7.1", "pandas")),
}


def curated_names():
    return [PREFIX + name for name in sorted(_table())]


def curated_body(name):
    """The stored form of a curated environment, or None where no such name is known."""
    from azureml.core.conda_dependencies import CondaDependencies
    from azureml.core.environment import Environment
    python, packages = _table().get(name[len(PREFIX):] if name.startswith(PREFIX) else None, (None, ()))
    if python is None:
        return None
    made = Environment(name)
    made.python.conda_dependencies = CondaDependencies.create(
        python_version=python, pip_packages=["azureml-defaults"] + list(packages))
    return made._to_object()


def _table():
    table = dict(_PLAIN)
    for framework, several in _SERIES.items():
        for series in several:
            for core in ("CPU", "GPU"):
                table["%s-%s-%s" % (framework, series, core)] = (_PYTHON_2020, _packages(framework, series, core))
    return table


def _packages(framework, series, core):
    if framework == "TensorFlow":
        return ("tensorflow%s==%s.*" % ("-gpu" if core == "GPU" else "", series), "matplotlib", "pandas")
    if framework == "PyTorch":
        return ("torch==%s.*" % series, "torchvision==%s" % _TORCHVISION[series], "tensorboard==1.14.0", "future",
                "setuptools<60", "tqdm")
    return ("chainer==%s" % series,)
