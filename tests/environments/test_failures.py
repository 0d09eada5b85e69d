import pytest

from runyard.environments.failures import failed
from runyard.model.plan import EnvironmentSpec

SPEC = EnvironmentSpec(requirements=("pandas==2.0.0", "numpy==99"), choices=(("torch==9+cpu",), ("torch==9",)))


@pytest.mark.parametrize(
    ("said", "package", "hint"),
    [
        ("Because there is no version of numpy==99 and you require numpy==99", "numpy", "'numpy==99' in pip_packages"),
        ("Because Torch was not found in the package registry", "torch", "'torch==9+cpu' in pip_packages"),
        ("Because pandas==2.0.0 depends on numpy>=1.22 and you require numpy==99", "pandas", "'pandas==2.0.0'"),
        ("Because zope was not found in the cache", "zope", "'zope' is needed by one of your packages"),
        ("Failed to build `pandas==2.0.0`", "pandas", "'pandas==2.0.0' in pip_packages"),
        (
            "Because the current Python version (3.6.15) does not satisfy Python>=3.8 and pandas==2.0.0 depends on",
            "pandas",
            "'pandas' needs Python >=3.8, and this environment has 3.6.15",
        ),
        ("error: something else", "", "Change pip_packages"),
        (
            "Failed to fetch: x\n  cause: error sending request for url (https://i/s/)",
            None,
            "network, and at the proxy",
        ),
        ("Failed to copy: No space left on device (os error 28)", None, "Free space"),
    ],
)
def test_a_failure_quotes_uv_and_points_at_the_argument(said, package, hint):
    error = failed("resolving the packages", said.split("\n"), SPEC)
    assert said in error.problem
    assert hint in error.hint
    assert error.facts.get("package") == package
