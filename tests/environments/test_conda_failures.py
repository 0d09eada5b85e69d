import pytest

from runyard.core.records.environments import FailureCause
from runyard.environments.conda.program import conda_failed
from runyard.environments.programs import ProgramResult

UNSOLVED = "error    libmamba Could not solve for environment specs\n"
WORDS = {
    "micromamba, unknown name": (
        UNSOLVED + "    The following package could not be installed\n"
        "    └─ nosuch =* * does not exist (perhaps a typo or a missing channel).\n",
        FailureCause.NO_SUCH_PACKAGE,
    ),
    "micromamba, unknown name among others": (
        UNSOLVED + "    The following packages are incompatible\n"
        "    ├─ nosuch does not exist (perhaps a typo or a missing channel);\n"
        "    └─ other 11.8** is not installable because it requires\n"
        "       └─ cuda 11.8.*, which does not exist (perhaps a missing channel).\n",
        FailureCause.NO_SUCH_PACKAGE,
    ),
    "micromamba, conflict": (
        UNSOLVED + "    The following packages are incompatible\n"
        "    ├─ nosuch =3.12 * is requested and can be installed;\n"
        "    └─ python =3.13 * is not installable because it conflicts with any installable versions.\n",
        FailureCause.CONFLICT,
    ),
    "micromamba, no host": (
        "critical libmamba Download error (6) Couldn't resolve host name [https://channel.invalid/linux-64]",
        FailureCause.NETWORK,
    ),
    "micromamba, certificate": (
        "critical libmamba Download error (60) SSL peer certificate or SSH remote key was not OK [https://host/x]",
        FailureCause.CERTIFICATE,
    ),
    "micromamba, login": (
        "critical libmamba Subdir ours/linux-64 not loaded! HTTP status 401",
        FailureCause.WRONG_CREDENTIALS,
    ),
    "micromamba, checksum": (
        "error    libmamba File '/pkgs/demo-1.0-0.conda' has invalid MD5 checksum",
        FailureCause.CHECKSUM,
    ),
    "conda, unknown name": (
        "PackagesNotFoundError: The following packages are not available from current channels:\n\n  - nosuch\n",
        FailureCause.NO_SUCH_PACKAGE,
    ),
    "conda, conflict": (
        "UnsatisfiableError: The following specifications were found to be incompatible with each other:\n"
        "Package nosuch conflicts for:\n",
        FailureCause.CONFLICT,
    ),
    "conda by libmamba, unknown name": (
        "LibMambaUnsatisfiableError: Encountered problems while solving:\n  - nothing provides requested nosuch\n",
        FailureCause.NO_SUCH_PACKAGE,
    ),
    "conda, no host": (
        "CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://host/repodata.json>",
        FailureCause.NETWORK,
    ),
    "conda, server": ("CondaHTTPError: HTTP 503 SERVICE UNAVAILABLE for url <https://host/x>", FailureCause.NETWORK),
    "conda, no channel": (
        "UnavailableInvalidChannel: HTTP 404 NOT FOUND for channel ours <https://host>",
        FailureCause.NETWORK,
    ),
    "conda, login": (
        "UnavailableInvalidChannel: HTTP 401 UNAUTHORIZED for channel ours",
        FailureCause.WRONG_CREDENTIALS,
    ),
    "conda, checksum": (
        "ChecksumMismatchError: Conda detected a mismatch between the expected content and downloaded content",
        FailureCause.CHECKSUM,
    ),
    "conda, disk": ("NoSpaceLeftError: No space left on devices.", FailureCause.DISK_FULL),
    "something else": ("Traceback (most recent call last):\n  whatever", FailureCause.CONDA_FAILED),
    "nothing": ("", FailureCause.CONDA_FAILED),
}


@pytest.mark.parametrize("case", WORDS)
def test_the_words_of_each_tool_tell_the_cause(case):
    words, cause = WORDS[case]
    failure = conda_failed(
        "conda", "solving", ProgramResult(1, words.splitlines()), ["nosuch=1", "fine"], offline=False
    )
    assert failure.facts["cause"] == cause
    assert failure.facts["said"] in words
    assert bool(failure.facts["said"]) == bool(words)
    assert failure.facts["packages"] == (
        ["nosuch=1"] if cause in (FailureCause.NO_SUCH_PACKAGE, FailureCause.CONFLICT) else []
    )
    assert failure.hint


@pytest.mark.parametrize("case", ["micromamba, unknown name", "conda, no host", "something else"])
def test_what_an_offline_workspace_lacks_is_told_as_that(case):
    failure = conda_failed("conda", "solving", ProgramResult(1, WORDS[case][0].splitlines()), [], offline=True)
    assert failure.facts["cause"] == FailureCause.OFFLINE


def test_no_password_of_an_address_is_quoted():
    words = ["CondaHTTPError: HTTP 401 UNAUTHORIZED for url <https://me:s3cret@host/ours>"]
    failure = conda_failed("conda", "solving", ProgramResult(1, words), [], offline=False)
    assert "s3cret" not in str(failure) + str(failure.facts)
