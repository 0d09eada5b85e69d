"""Conda packages as users list them: parsing of lines, and their names on the Python package index."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runyard.core.errors import InvalidArgument

CHANNEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
CHANNEL_ADDRESS = re.compile(r"(https?|file)://[A-Za-z0-9_.~:/@%+-]+")
PACKAGE = re.compile(
    r"(?:(?P<channel>[^\s=<>!~|,]+)::)?(?P<name>[A-Za-z0-9_][A-Za-z0-9._-]*+)(?P<version>[A-Za-z0-9._+*!=<>~|, -]*+)"
)
CLAUSE = re.compile(r"(==|!=|<=|>=|~=|=|<|>)?([A-Za-z0-9._+!-]*\*?)")
PINNED = re.compile(r"(={1,2})([^=,<>|~]+)(=[^=,<>|]*)?")


@dataclass(frozen=True)
class CondaLine:
    text: str
    """Line as the user wrote it, stripped."""
    name: str
    version: str
    """Version as pip writes it, such as "==1.2.*"; "" for any."""


def parse_conda_line(line: str) -> CondaLine:
    """Parse one line of conda_packages. Raises InvalidArgument if it names no package or has a bad version."""
    text = line.strip()
    found = PACKAGE.fullmatch(text)
    if not found:
        raise InvalidArgument(
            f"conda_packages holds {line!r}, which is not a package.",
            hint="Write a name with a version, like 'scikit-learn=0.20.3'; files, addresses and options are not taken.",
        )
    if found["channel"]:
        check_channel(found["channel"])
    try:
        return CondaLine(text, found["name"].lower(), conda_version(found["version"]))
    except ValueError:
        raise InvalidArgument(
            f"conda_packages holds {line!r}, whose version {found['version'].strip()!r} cannot be read.",
            hint="Write it like 'numpy=1.16', 'numpy==1.16.4' or 'numpy>=1.16,<1.18'.",
        ) from None


def conda_version(text: str) -> str:
    """Translate a conda version to pip's syntax: '=1.2' -> '==1.2.*', '=1.2=py36_0' -> '==1.2'; ranges stay, of
    alternatives the last is taken. Raises ValueError."""
    spec = re.sub(r"\s+", " ", text.strip())
    spec = re.sub(r"(?<=[A-Za-z0-9*]) (?=[A-Za-z0-9_]+$)", "=", spec).replace(" ", "")  # 'scipy 1.2.1 py36_0'
    if not spec or spec == "*":
        return ""
    if "|" in spec:
        return conda_version(spec.rpartition("|")[2])
    pinned = PINNED.fullmatch(spec if spec[0] in "<>=!~" else f"=={spec}")
    if pinned:
        version, has_build = pinned[2], bool(pinned[3])
        precise = pinned[1] == "==" or has_build or version.count(".") >= 2 or version.endswith("*")
        return _clause("==" + version if precise else f"=={version}.*")
    return ",".join(clause for part in spec.split(",") if (clause := _clause(part)))


def check_channel(channel: str) -> str:
    """The channel, if it is a name or a URL. Raises InvalidArgument."""
    if CHANNEL_ADDRESS.fullmatch(channel) or (CHANNEL_NAME.fullmatch(channel) and ".." not in channel):
        return channel
    raise InvalidArgument(
        f"The conda dependencies name the channel {channel!r}, which is neither a name nor an address.",
        hint="Write a name like 'conda-forge', or an address that starts with https:// or file://.",
    )


def check_channels(channels: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check_channel(channel.strip()) for channel in channels))


def _clause(text: str) -> str:
    found = CLAUSE.fullmatch(text)
    if not found or not found[2]:
        raise ValueError(text)
    operator, version = found[1] or "==", found[2]
    if version == "*":
        return ""
    if version.endswith("*"):
        version = version.rstrip(".*") + ("" if operator in ("<", ">", "<=", ">=") else ".*")
    return ("==" if operator == "=" else operator) + version


CONDA_TO_PYPI: Mapping[str, str] = {
    # frameworks
    "pytorch": "torch",
    "pytorch-cpu": "torch",
    "pytorch-gpu": "torch",
    "torchvision-cpu": "torchvision",
    "tensorflow-mkl": "tensorflow-cpu",
    "tensorflow-eigen": "tensorflow-cpu",
    "tensorflow-base": "tensorflow",
    "keras-gpu": "keras",
    "keras-base": "keras",
    "py-xgboost": "xgboost",
    "py-xgboost-cpu": "xgboost",
    "py-xgboost-gpu": "xgboost",
    "py-xgboost-mutex": "",
    "mxnet-gpu": "mxnet",
    "py-mxnet": "mxnet",
    "faiss": "faiss-cpu",
    "fbprophet": "prophet",
    "pytorch_geometric": "torch-geometric",
    "pyg": "torch-geometric",
    "pytorch_sparse": "torch-sparse",
    "pytorch_scatter": "torch-scatter",
    "gym-all": "gym",
    "onnxruntime-cpu": "onnxruntime",
    # images, video, sound
    "opencv": "opencv-python-headless",
    "py-opencv": "opencv-python-headless",
    "libopencv": "",
    "vtk-base": "vtk",
    "imagecodecs-lite": "imagecodecs",
    "pysoundfile": "soundfile",
    "python-sounddevice": "sounddevice",
    "python-graphviz": "graphviz",
    # plots and notebooks
    "matplotlib-base": "matplotlib",
    "seaborn-base": "seaborn",
    "python-kaleido": "kaleido",
    # data and files
    "pytables": "tables",
    "pyarrow-core": "pyarrow",
    "arrow-cpp": "",
    "msgpack-python": "msgpack",
    "python-blosc": "blosc",
    "python-lmdb": "lmdb",
    "python-zstd": "zstd",
    "lz4-c": "",
    "brotli-python": "brotli",
    "dask-core": "dask",
    "modin-all": "modin",
    # databases and the web
    "psycopg2": "psycopg2-binary",
    "python-duckdb": "duckdb",
    "redis-py": "redis",
    "azure-storage": "azure-storage-blob",
    # numbers, geometry, science
    "numpy-base": "numpy",
    "python-igraph": "igraph",
    "igraph-python": "igraph",
    "louvain-igraph": "louvain",
    "openbabel": "openbabel-wheel",
    "coincbc": "",
    "cvxpy-base": "cvxpy",
    # language and text
    "nltk_data": "",
    "sentencepiece-python": "sentencepiece",
    # programs around Python
    "python_abi": "",
    "cuda-python": "cuda-python",
    "python-tzdata": "tzdata",
    "docker-py": "docker",
    "pywin32-on-windows": "",
    "enum34": "",
    "futures": "",
}
"""PyPI names of conda packages whose names differ or would match UNNEEDED; '' for packages that no wheel needs.

Other names are taken to be the same on PyPI, which the build log says.
"""

# Libraries that wheels contain, or that the machine's driver and MPI replace.
UNNEEDED = re.compile(
    r"_.*|cuda.*|cudatoolkit.*|cudnn.*|nccl|cupti|libcu.*|libnv.*|libnpp|magma.*|mkl|mkl-.*|mkl_.*|blas.*|libblas.*"
    r"|libcblas.*|liblapack.*|openblas.*|libopenblas|nomkl|libgcc.*|libgomp|libstdc.*|libgfortran.*|_openmp_mutex|openmp"
    r"|llvm-openmp|intel-openmp|tbb|openssl|ca-certificates|certifi-win32|sqlite|libsqlite|zlib|libzlib|xz|liblzma.*"
    r"|bzip2|zstd|tk|readline|ncurses|libffi|libpng|libtiff|libwebp.*|libjpeg.*|jpeg|giflib|lcms2|openjpeg|freetype"
    r"|fontconfig|expat|libexpat|libuuid|libxml2|libxslt|icu|glib|libglib|gstreamer.*|gst-.*|qt|qt-main|pcre.*|dbus"
    r"|hdf5|libhdf5|snappy|libprotobuf.*|libabseil|abseil-cpp|grpc-cpp|libgrpc|aws-.*|boost-cpp|libboost.*|gflags|glog"
    r"|gcc.*|gxx.*|gfortran.*|binutils.*|ld_impl.*|sysroot.*|kernel-headers.*|compilers|c-compiler|cxx-compiler|patchelf"
    r"|openmpi.*|mpich.*|impi.*|mpi|ucx|cpuonly|pytorch-cuda|pytorch-mutex|conda|mamba|vc|vs20.*|geos|proj|libgdal.*"
    r"|libspatialindex|libsndfile|portaudio|tensorflow-.*-mutex"
)
# Not on PyPI. Scripts mostly need one program of them, which the machine may have.
PROGRAMS_INSTEAD: Mapping[str, str] = {
    "openjdk": "java",
    "maven": "mvn",
    "r-base": "Rscript",
    "r": "Rscript",
    "julia": "julia",
    "nodejs": "node",
    "go": "go",
    "rust": "cargo",
    "perl": "perl",
    "ruby": "ruby",
    "ffmpeg": "ffmpeg",
    "sox": "sox",
    "imagemagick": "convert",
    "tesseract": "tesseract",
    "poppler": "pdftotext",
    "ghostscript": "gs",
    "git": "git",
    "git-lfs": "git-lfs",
    "plotly-orca": "orca",
    "make": "make",
    "curl": "curl",
    "wget": "wget",
    "unzip": "unzip",
    "rsync": "rsync",
    "parallel": "parallel",
    "bash": "bash",
    "texlive-core": "pdflatex",
    "samtools": "samtools",
    "bcftools": "bcftools",
    "bedtools": "bedtools",
    "blast": "blastn",
    "bwa": "bwa",
    "hmmer": "hmmsearch",
}
NOT_ON_PYPI = re.compile(r"r-.*|bioconductor-.*|perl-.*|anaconda|_r-mutex|root|root_base|spacy-model-.*|caffe.*")
# A run uses the MPI of the machine, whose mpirun starts its processes; packages built against it cannot be conda's.
BOUND_TO_MPI = re.compile(r"mpi|mpi4py|horovod|openmpi.*|mpich.*|impi.*")


def is_unneeded(name: str) -> bool:
    """Whether the conda package can be left out when packages come from PyPI."""
    if name in CONDA_TO_PYPI:
        return not CONDA_TO_PYPI[name]
    return name not in PROGRAMS_INSTEAD and bool(UNNEEDED.fullmatch(name))


def is_not_on_pypi(name: str) -> bool:
    """Whether PyPI has no equivalent of the conda package."""
    return name not in CONDA_TO_PYPI and (name in PROGRAMS_INSTEAD or bool(NOT_ON_PYPI.fullmatch(name)))


def pypi_name(name: str) -> str:
    """Name of the conda package on PyPI."""
    return CONDA_TO_PYPI.get(name, name)
