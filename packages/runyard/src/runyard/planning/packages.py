"""From the names users write (conda's, azureml's) to requirements of the Python package index."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runyard.errors import InvalidArgument

CONDA_TO_PYPI = {
    "pytorch": "torch",
    "pytorch-cpu": "torch",
    "pytorch-gpu": "torch",
    "torchvision-cpu": "torchvision",
    "tensorflow-mkl": "tensorflow-cpu",
    "tensorflow-eigen": "tensorflow-cpu",
    "keras-gpu": "keras",
    "py-xgboost": "xgboost",
    "py-xgboost-cpu": "xgboost",
    "py-xgboost-gpu": "xgboost",
    "python-graphviz": "graphviz",
    "py-opencv": "opencv-python-headless",
    "opencv": "opencv-python-headless",
    "matplotlib-base": "matplotlib",
    "seaborn-base": "seaborn",
    "msgpack-python": "msgpack",
    "pytables": "tables",
    "ruamel_yaml": "ruamel.yaml",
    "dask-core": "dask",
    "pyarrow-core": "pyarrow",
    "ipython_genutils": "ipython-genutils",
    "faiss": "faiss-cpu",
    "fbprophet": "prophet",
    "pysocks": "PySocks",
    "tensorboardx": "tensorboardX",
}
# Libraries and tools that conda packs and that no wheel needs or provides.
NOT_ON_PYPI = re.compile(
    r"(_.*|cuda.*|cudnn|nccl|mkl|mkl-service|mkl_.*|blas|libblas|libcblas|liblapack|openblas|libopenblas|libgcc.*"
    r"|libstdc.*|libgfortran.*|openmp|llvm-openmp|intel-openmp|openssl|ca-certificates|certifi-win32|sqlite|zlib|xz|tk"
    r"|readline|ncurses|libffi|libpng|libtiff|jpeg|freetype|ffmpeg|gcc.*|gxx.*|make|git|curl|wget|nodejs|openjdk|r-.*"
    r"|openmpi|mpich|impi.*|cpuonly|pytorch-cuda|pytorch-mutex|nomkl|conda|anaconda|vc|vs20.*|ld_impl.*|libuuid|expat)"
)
AZUREML = re.compile(r"(azureml|azure-ml)(-[a-z0-9-]+)?")
# What these packages brought along for scripts, by extra; "" is what came without any.
AZUREML_BRINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "azureml-dataprep": {"pandas": ("pandas", "pyarrow"), "fuse": (), "parquet": ("pyarrow",)},
    "azureml-dataset-runtime": {
        "": ("pyarrow",),
        "pandas": ("pandas", "pyarrow"),
        "fuse": (),
        "parquet": ("pyarrow",),
        "scikit-learn": ("scikit-learn",),
    },
    "azureml-sdk": {"": ("pandas", "pyarrow"), "notebooks": (), "automl": ("pandas", "scikit-learn")},
    "azureml-train-automl": {"": ("pandas", "scikit-learn")},
    "azureml-interpret": {"": ("pandas", "scikit-learn")},
    "azureml-opendatasets": {"": ("pandas", "pyarrow")},
}
NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?")
CONDA_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
KEPT_OPTIONS = (
    "--find-links",
    "-f",
    "--index-url",
    "-i",
    "--extra-index-url",
    "--pre",
    "--trusted-host",
    "--only-binary",
    "--no-binary",
)


@dataclass
class Wishes:
    """What a user's lists ask for, gathered in order; `python` is the wished version or ''."""

    requirements: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    python: str = ""

    def names(self) -> set[str]:
        return {requirement_name(line) for line in self.requirements} - {""}


def requirement_name(line: str) -> str:
    """The package's name in its normal form; '' for an option line."""
    found = None if line.lstrip().startswith("-") else NAME.match(line)
    return normal(found.group(1)) if found else ""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def has_version(line: str) -> bool:
    return bool(re.search(r"[=<>~!@]", line.split(";")[0]))


def add_pip(wishes: Wishes, lines: Iterable[str]) -> None:
    for line in lines:
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text:
            continue
        if "\n" in text or "\0" in text:
            raise InvalidArgument(
                f"pip_packages holds {line!r}, which spans lines.", hint="Give one requirement an entry."
            )
        if text.startswith("-"):
            _add_option(wishes, text)
        elif AZUREML.fullmatch(requirement_name(text)):
            _add_azureml(wishes, text)
        elif requirement_name(text):
            wishes.requirements.append(text)
        else:
            raise InvalidArgument(
                f"pip_packages holds {text!r}, which is not a requirement.", hint="Write it like 'numpy==1.16.6'."
            )


def add_conda(wishes: Wishes, lines: Iterable[str]) -> None:
    for line in lines:
        text = line.strip().split("::")[-1]
        found = CONDA_NAME.match(text)
        if not found:
            raise InvalidArgument(
                f"conda_packages holds {line!r}, which is not a package.", hint="Write it like 'scikit-learn=0.20.3'."
            )
        name, version = found.group().lower(), conda_version(text[found.end() :])
        if name == "python":
            wishes.python = re.sub(r"^[=~<>! ]+", "", version.split(",")[0]).removesuffix(".*")
        elif name in ("pip", "setuptools", "wheel") and not version:
            continue
        elif AZUREML.fullmatch(name):
            _add_azureml(wishes, name + version)
        else:
            _add_mapped(wishes, line.strip(), name, version)


def conda_version(text: str) -> str:
    """conda's version part as pip writes it: '=1.2=py36_0' -> '==1.2.*', '==1.2' and ranges as they are."""
    spec = text.strip().replace(" ", "")
    if not spec:
        return ""
    exact = re.fullmatch(r"(={1,2})([^=,<>|]+)(=[^=]*)?", spec)
    if exact:
        version, has_build = exact.group(2), bool(exact.group(3))
        precise = exact.group(1) == "==" or has_build or version.count(".") >= 2 or version.endswith("*")
        return f"=={version}" if precise else f"=={version}.*"
    if "|" in spec:
        return conda_version(spec.split("|")[-1])
    return spec if spec[0] in "<>=!~" else f"=={spec}"


def _add_mapped(wishes: Wishes, original: str, name: str, version: str) -> None:
    mapped = CONDA_TO_PYPI.get(name, name)
    if name not in CONDA_TO_PYPI and NOT_ON_PYPI.fullmatch(name):
        wishes.notes.append(f"conda package '{original}' is left out: it is not a Python package of the index.")
        return
    wishes.requirements.append(mapped + version)
    wishes.notes.append(
        f"conda package '{original}' is installed from the Python package index as '{mapped}{version}'."
    )


def _add_azureml(wishes: Wishes, text: str) -> None:
    found = NAME.match(text)
    extras = [normal(extra) for extra in ((found and found.group(2)) or "").split(",") if extra.strip()]
    brings = AZUREML_BRINGS.get(requirement_name(text), {})
    brought = [package for extra in ["", *extras] for package in brings.get(extra, ())]
    wishes.requirements.extend(package for package in dict.fromkeys(brought) if package not in wishes.names())
    also = f"; it stands for {', '.join(dict.fromkeys(brought))}" if brought else ""
    wishes.notes.append(f"'{text}' is satisfied by Runyard itself{also}.")


def _add_option(wishes: Wishes, text: str) -> None:
    option = re.split(r"[\s=]", text, maxsplit=1)[0]
    if option not in KEPT_OPTIONS:
        raise InvalidArgument(
            f"The pip requirements hold the line {text!r}, which cannot be followed on another machine.",
            hint="List the packages themselves; options that choose an index or a wheel folder are understood.",
        )
    wishes.requirements.append(text)
