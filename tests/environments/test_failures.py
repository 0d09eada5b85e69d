import pytest

from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.failures import program_failed

SPEC = EnvironmentSpec(requirements=("pandas==2.0.0", "numpy==99"), choices=(("torch==9+cpu",), ("torch==9",)))


@pytest.mark.parametrize(
    ("said", "cause", "package", "hint"),
    [
        ("Because there is no version of numpy==99 and you", "no_such_version", "numpy", "'numpy==99' in pip_packages"),
        (
            "Because Torch was not found in the package registry",
            "no_such_package",
            "torch",
            "'torch==9+cpu' in pip_pac",
        ),
        ("Because pandas==2.0.0 depends on numpy>=1.22 and you", "conflict", "pandas", "'pandas==2.0.0'"),
        (
            "Because zope was not found in the package registry",
            "no_such_package",
            "zope",
            "is needed by one of your pac",
        ),
        ("Failed to build `pandas==2.0.0`", "build_failed", "pandas", "'pandas' has no wheel for this Python"),
        (
            "Because the current Python version (3.6.15) does not satisfy Python>=3.8 and pandas==2.0.0 depends on",
            "not_for_this_python",
            "pandas",
            "'pandas' needs Python >=3.8, and this environment has 3.6.15",
        ),
        ("error: something else", "unknown", "", "Change pip_packages"),
        ("error sending request for url (https://i/s/)", "network", "", "network, and the proxy"),
        ("Failed to copy: No space left on device (os error 28)", "disk_full", "", "Free space"),
        (
            "error: command 'gcc' failed: No such file or directory",
            "compiler_missing",
            "",
            "gcc is not on this machine",
        ),
        ("unable to execute 'x86_64-linux-gnu-gcc': No such", "compiler_missing", "", "x86_64-linux-gnu-gcc is not on"),
        ("/bin/sh: 1: cmake: not found", "compiler_missing", "", "cmake is not on this machine"),
        ("CMake must be installed to build the following", "compiler_missing", "", "CMake is not on this machine"),
        ("error: can't find Rust compiler", "compiler_missing", "", "Rust is not on this machine"),
        ("a.c:1:10: fatal error: Python.h: No such file or directory", "header_missing", "", "that has Python.h"),
        ("/usr/bin/ld: cannot find -lmysqlclient: No such file", "header_missing", "", "that has mysqlclient"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "killed", "", "memory was short"),
        (
            "ERROR: No matching distribution found for numpy==99",
            "no_such_version",
            "numpy",
            "'numpy==99' in pip_packages",
        ),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE", "checksum", "", "another than the locked one"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local", "certificate", "", "ca_bundle of the workspace"),
    ],
)
def test_a_failure_quotes_the_program_and_points_at_the_argument(said, cause, package, hint):
    error = program_failed("resolving the packages", ["Resolved nothing.", f"  {said}", "That is all."], SPEC)
    assert error.facts["cause"] == cause
    assert error.facts["said"] == (said if cause != "unknown" else "That is all.")
    assert said in error.problem
    assert hint in error.hint
    assert error.facts["package"] == package


def test_what_stops_everything_goes_before_what_the_resolver_concludes_from_it():
    words = [
        "Because numpy was not found in the package registry and you require numpy",
        "hint: An index URL could not be queried due to a lack of valid authentication credentials (401 Unauthorized)",
    ]
    assert program_failed("resolving", words, SPEC).facts["cause"] == FailureCause.WRONG_CREDENTIALS


def test_a_password_in_what_was_said_is_in_no_part_of_the_error():
    error = program_failed(
        "resolving", ["error sending request for url (https://me:s3cret@index.example/simple/)"], SPEC
    )
    assert "s3cret" not in str(error)
    assert "https://me:****@index.example/simple/" in error.facts["said"]


def test_a_million_odd_lines_are_diagnosed_in_a_moment():
    words = ["a.-_" * 1024] * 2200
    assert program_failed("building", words, SPEC).facts["cause"] == FailureCause.UNKNOWN
