"""Curated environments: v1's names with packages that still install.

TABLE maps each name without prefix to (Python, pip packages). It has the names that public code uses, with the original
versions where they can still be installed. Left out: azureml-* (Runyard has it), Horovod (added for MPI runs) and
notebook packages. AutoML environments hold the libraries that its models are made of.
"""

from azureml.exceptions import UserErrorException

PREFIX = "AzureML-"
VERSION = "1"
_NEAR = 5
_OF_2020 = "3.6.2"
_SCIENCE_37 = ("matplotlib>=3.3,<3.4", "numpy>=1.16,<1.20", "pandas>=1.1,<1.2", "psutil>=5.8,<5.9", "scipy>=1.5,<1.6",
               "tqdm>=4.59,<4.60")
_SCIENCE_38 = ("matplotlib>=3.3,<3.4", "numpy>=1.17,<1.22", "pandas>=1.3,<1.4", "psutil>=5.8,<5.9", "scipy>=1.5,<1.8",
               "tqdm>=4.59,<4.63")
_SCIENCE_122 = ("matplotlib>=3.5,<3.6", "numpy>=1.22,<1.23", "pandas>=1.3,<1.6", "psutil", "scipy>=1.7,<1.11", "tqdm")
_SCIENCE = ("matplotlib", "numpy<2", "pandas<3", "psutil", "scipy", "tqdm")
_FOR_MODELS_37 = ("numpy>=1.16,<1.22", "pandas>=1.1,<1.2")
_AUTOML = ("scikit-learn==0.22.1", "pandas==0.25.3", "numpy==1.18.5", "scipy==1.4.1", "xgboost==0.90",
           "holidays==0.9.11", "psutil", "joblib==0.14.1")
_BESIDE_OLD_TORCH = ("tensorboard==1.14.0", "future", "setuptools<60", "tqdm")

_TORCHVISION = {"1.0": "0.2.2", "1.1": "0.3.0", "1.2": "0.4.0", "1.3": "0.4.1", "1.4": "0.5.0", "1.5": "0.6.0",
                "1.6": "0.7.0", "1.7.1": "0.8.2", "1.8.1": "0.9.1", "1.9.1": "0.10.1", "1.10.0": "0.11.1",
                "1.11.0": "0.12.0", "1.12.1": "0.13.1", "1.13.1": "0.14.1", "2.0.1": "0.15.2", "2.2.2": "0.17.2",
                "2.8.0": "0.23.0"}


def is_curated_name(name):
    """Whether the name is reserved for curated environments."""
    return isinstance(name, str) and name.lower().startswith(PREFIX.lower())


def curated_names():
    return [PREFIX + name for name in sorted(TABLE)]


def curated_body(name):
    """Stored form of a curated environment. Raises UserErrorException, with similar names, for an unknown one."""
    from azureml.core.conda_dependencies import CondaDependencies
    from azureml.core.environment import Environment
    python, packages = TABLE[_known(name)]
    made = Environment(name)
    made.environment_variables = {}
    made.python.conda_dependencies = CondaDependencies.create(
        python_version=python, pip_packages=["azureml-defaults"] + list(packages))
    return made._to_object()


def _known(name):
    """Name in the table; case-insensitive, because public code writes some names differently."""
    names = {known.lower(): known[len(PREFIX):] for known in curated_names()}
    if name.lower() not in names:
        raise UserErrorException("There is no environment %r. Curated environments with a name like it: %s. "
                                 "Environment.list(workspace) has all of them." % (name, ", ".join(_near(name))))
    return names[name.lower()]


def _near(name):
    from difflib import SequenceMatcher

    def likeness(known):
        return SequenceMatcher(None, known.lower(), name.lower()).ratio()

    return sorted(curated_names(), key=likeness, reverse=True)[:_NEAR]


def _torch(release):
    exact = release if release.count(".") == 2 else release + ".*"
    return ("torch==" + exact, "torchvision==" + _TORCHVISION[release])


TABLE = {
    "Minimal": (_OF_2020, ()),
    "Tutorial": (_OF_2020, ("scikit-learn==0.22.2.post1", "joblib", "pandas", "matplotlib", "tqdm")),
    "Scikit-learn-0.20.3": (_OF_2020, ("scikit-learn==0.20.3", "scipy==1.2.1", "joblib==0.13.2")),
    "VowpalWabbit-8.8.0": (_OF_2020, ("vowpalwabbit==8.8.1", "pandas", "pyarrow")),
    "PySpark-MmlSpark-0.15": (_OF_2020, ("pyspark==3.0.3", "numpy", "pandas<1")),
    "Dask-CPU": (_OF_2020, ("dask[complete]", "dask-ml", "distributed", "fastparquet", "fsspec", "joblib", "lz4",
                            "pyarrow")),
    "Dask-GPU": (_OF_2020, ("dask[complete]", "dask-ml", "distributed", "fastparquet", "fsspec", "joblib", "lz4",
                            "matplotlib", "pyarrow")),
    "AutoML": (_OF_2020, _AUTOML),
    "AutoML-GPU": (_OF_2020, _AUTOML),
    "AutoML-DNN": (_OF_2020, _AUTOML + _torch("1.4")),
    "AutoML-DNN-GPU": (_OF_2020, _AUTOML + _torch("1.4")),
    "AutoML-DNN-Vision-GPU": (_OF_2020, _torch("1.4") + ("pandas", "scikit-image", "scikit-learn")),
    "Hyperdrive-ForecastDNN": (_OF_2020, _AUTOML + _torch("1.4")),
    "Triton": ("3.8", ("tritonclient[http]", "numpy<2")),

    "Scikit-learn0.20.4-Cuda11-OpenMpi4.1.0-py36": (_OF_2020, ("scikit-learn==0.20.4", "pandas", "joblib")),
    "Scikit-learn0.24-Cuda11-OpenMpi4.1.0-py36": (_OF_2020, ("scikit-learn==0.24.1", "pandas", "joblib")),
    "TensorFlow2.4-Cuda11-OpenMpi4.1.0-py36": (_OF_2020, ("tensorflow-gpu==2.4.*", "matplotlib", "pandas")),
    "Pytorch1.7-Cuda11-OpenMpi4.1.0-py36": (_OF_2020, _torch("1.7.1") + ("tensorboard==2.4.0", "pandas", "tqdm")),

    "sklearn-0.24-ubuntu18.04-py37-cpu": ("3.7", ("scikit-learn==0.24.1",) + _SCIENCE_37),
    "sklearn-0.24-ubuntu18.04-py37-cuda11-gpu": ("3.7", ("scikit-learn==0.24.1",) + _SCIENCE_37),
    "sklearn-1.0-ubuntu20.04-py38-cpu": ("3.8", ("scikit-learn==1.0.2",) + _SCIENCE_38),
    "sklearn-1.0": ("3.8", ("scikit-learn==1.0.2",) + _SCIENCE_38),
    "sklearn-1.1": ("3.9", ("scikit-learn==1.1.*",) + _SCIENCE_122),
    "sklearn-1.5": ("3.10", ("scikit-learn==1.5.*",) + _SCIENCE_122),
    "lightgbm-3.2-ubuntu18.04-py37-cpu": ("3.7", (
        "lightgbm==3.2.*", "xgboost==1.4.*", "scikit-learn==0.24.*", "dask==2021.6.*", "distributed==2021.6.*",
        "dask-ml==1.9.*") + _SCIENCE_37),
    "lightgbm-3.3-ubuntu20.04-py38-cpu": ("3.8", (
        "lightgbm==3.3.*", "xgboost==1.5.*", "scikit-learn==1.0.*") + _SCIENCE_38),
    "lightgbm-3.3": ("3.9", ("lightgbm==3.3.*", "xgboost==1.5.*", "scikit-learn==1.1.*") + _SCIENCE_122),
    "responsibleai-0.20-ubuntu20.04-py38-cpu": ("3.8", ("responsibleai==0.20.*", "raiwidgets==0.20.*")),
    "responsibleai-0.21-ubuntu20.04-py38-cpu": ("3.8", ("responsibleai==0.21.*", "raiwidgets==0.21.*")),

    "tensorflow-2.4-ubuntu18.04-py37-cuda11-gpu": ("3.7", ("tensorflow-gpu==2.4.*",) + _SCIENCE_37),
    "tensorflow-2.5-ubuntu20.04-py38-cuda11-gpu": ("3.8", ("tensorflow-gpu==2.5.*",) + _SCIENCE_38),
    "tensorflow-2.6-ubuntu20.04-py38-cuda11-gpu": ("3.8", ("tensorflow-gpu==2.6.2",) + _SCIENCE_38),
    "tensorflow-2.7-ubuntu20.04-py38-cuda11-gpu": ("3.8", ("tensorflow-gpu==2.7.1",) + _SCIENCE_38),
    "tensorflow-2.8-ubuntu20.04-py38-cuda11-gpu": ("3.8", ("tensorflow-gpu==2.8.*",) + _SCIENCE_38),
    "tensorflow-2.11-cuda11": ("3.8", ("tensorflow==2.11.*",) + _SCIENCE_122),
    "tensorflow-2.12-cuda11": ("3.9", ("tensorflow==2.12.*",) + _SCIENCE_122),
    "tensorflow-2.16-cuda12": ("3.10", ("tensorflow-gpu==2.16.*", "numpy==1.23.5") + _SCIENCE),

    "pytorch-1.7-ubuntu18.04-py37-cuda11-gpu": ("3.7", _torch("1.7.1") + _SCIENCE_37),
    "pytorch-1.8-ubuntu18.04-py37-cuda11-gpu": ("3.7", _torch("1.8.1") + _SCIENCE_37),
    "pytorch-1.9-ubuntu18.04-py37-cuda11-gpu": ("3.7", _torch("1.9.1") + _SCIENCE_37),
    "pytorch-1.10-ubuntu18.04-py38-cuda11-gpu": ("3.8", _torch("1.10.0") + _SCIENCE_38),
    "pytorch-1.13-ubuntu20.04-py38-cuda11.7-gpu": ("3.8", _torch("1.13.1") + _SCIENCE_38),
    "pytorch-2.0-ubuntu20.04-py38-cuda11.8-gpu": ("3.8", _torch("2.0.1") + _SCIENCE),
    "ACPT-pytorch-1.11-py38-cuda11.3-gpu": ("3.8", _torch("1.11.0") + _SCIENCE_38),
    "ACPT-pytorch-1.11-py38-cuda11.5-gpu": ("3.8", _torch("1.11.0") + _SCIENCE_38),
    "ACPT-pytorch-1.12-py38-cuda11.6-gpu": ("3.8", _torch("1.12.1") + _SCIENCE_38),
    "ACPT-pytorch-1.12-py39-cuda11.6-gpu": ("3.9", _torch("1.12.1") + _SCIENCE),
    "ACPT-pytorch-1.13-py38-cuda11.7-gpu": ("3.8", _torch("1.13.1") + _SCIENCE_38),
    "acpt-pytorch-2.0-cuda11.7": ("3.8", _torch("2.0.1") + _SCIENCE),
    "acpt-pytorch-2.2-cuda12.1": ("3.10", _torch("2.2.2") + _SCIENCE),
    "acpt-pytorch-2.8-cuda12.6": ("3.10", _torch("2.8.0") + _SCIENCE),

    "Minimal-Inference-CPU": ("3.7", ()),
    "minimal-ubuntu18.04-py37-cpu-inference": ("3.7", ()),
    "minimal-ubuntu20.04-py38-cpu-inference": ("3.8", ()),
    "XGBoost-0.9-Inference-CPU": ("3.7", ("xgboost==0.90", "scikit-learn==0.23.2", "pandas==0.25.1")),
    "xgboost-0.9-ubuntu18.04-py37-cpu-inference": ("3.7", ("xgboost==0.90", "scikit-learn==0.23.2", "pandas==0.25.1")),
    "sklearn-0.24.1-ubuntu18.04-py37-cpu-inference": ("3.7", ("scikit-learn==0.24.1",) + _FOR_MODELS_37),
    "onnxruntime-1.6-ubuntu18.04-py37-cpu-inference": ("3.7", ("onnxruntime==1.6.0",) + _FOR_MODELS_37),
    "TensorFlow-1.15-Inference-CPU": ("3.7", ("tensorflow==1.15.*", "pandas==0.25.1")),
    "tensorflow-1.15-ubuntu18.04-py37-cpu-inference": ("3.7", ("tensorflow==1.15.*", "pandas==0.25.1")),
    "tensorflow-2.4-ubuntu18.04-py37-cpu-inference": ("3.7", ("tensorflow==2.4.*",) + _FOR_MODELS_37),
    "tensorflow-2.4-ubuntu18.04-py37-cuda11.0.3-gpu-inference": ("3.7", ("tensorflow-gpu==2.4.*",) + _FOR_MODELS_37),
    "PyTorch-1.6-Inference-CPU": ("3.7", _torch("1.6") + ("pandas==0.25.1",)),
    "pytorch-1.6-ubuntu18.04-py37-cpu-inference": ("3.7", _torch("1.6") + ("pandas==0.25.1",)),
    "pytorch-1.7-ubuntu18.04-py37-cpu-inference": ("3.7", _torch("1.7.1") + _FOR_MODELS_37),
}
TABLE.update(("TensorFlow-%s-%s" % (series, core), (_OF_2020, (package + "==" + series + ".*", "matplotlib", "pandas")))
             for series in ("1.10", "1.12", "1.13", "2.0", "2.1", "2.2", "2.3", "2.4")
             for core, package in (("CPU", "tensorflow"), ("GPU", "tensorflow-gpu")))
TABLE.update(("PyTorch-%s-%s" % (series, core), (_OF_2020, _torch(series) + _BESIDE_OLD_TORCH))
             for series in ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6") for core in ("CPU", "GPU"))
TABLE.update(("Chainer-5.1.0-" + core, (_OF_2020, ("chainer==5.1.0",))) for core in ("CPU", "GPU"))
