import re
from collections.abc import Sequence

_PIN = "Name it in pip_packages or in the conda dependencies of the environment"
_TENSORFLOW_1 = (
    "The script is written for TensorFlow 1: use TensorFlow(framework_version='1.13'), or name tensorflow==1.15.5 "
    "with Python 3.7."
)
_ADVICE: Sequence[tuple[re.Pattern[str], str]] = [
    (
        re.compile(r"No module named 'sklearn\.externals|cannot import name '(joblib|six)'"),
        f"scikit-learn 0.23 dropped sklearn.externals: write `import joblib`, or have scikit-learn<0.23. {_PIN}.",
    ),
    (
        re.compile(r"module 'numpy' has no attribute '(float|int|bool|object|complex|str|long|unicode)'"),
        f"numpy 1.24 dropped this name: use the plain Python type, or have numpy<1.24. {_PIN}.",
    ),
    (
        re.compile(
            r"module 'tensorflow' has no attribute '(VERSION|placeholder|Session|InteractiveSession|app|flags|"
            r"ConfigProto|GPUOptions|global_variables_initializer|layers|contrib|get_default_graph|reset_default_graph|"
            r"set_random_seed|log|logging|gfile|variable_scope|get_variable|FixedLenFeature|truncated_normal)'"
            r"|module 'tensorflow[.\w]*\.train' has no attribute '(\w+Optimizer|Saver)'"
            r"|No module named 'tensorflow\.(contrib|examples)"
        ),
        _TENSORFLOW_1,
    ),
    (
        re.compile(r"No module named 'pkg_resources"),
        f"It came with setuptools, which is no longer in every environment: have setuptools<81. {_PIN}.",
    ),
    (
        re.compile(r"No module named '(?P<module>(?!azureml\b)\w+)"),
        "Add the package that brings '{module}' to pip_packages of the estimator or to the conda dependencies of "
        "the run's environment; a module of your own must lie in source_directory.",
    ),
]


def next_step(raised: str) -> str:
    """Advice for an exception, given as `Type: text`, that scripts for older packages often raise; "" for others."""
    for pattern, advice in _ADVICE:
        found = pattern.search(raised)
        if found:
            return advice.format(**found.groupdict())
    return ""
