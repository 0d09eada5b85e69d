import re
import signal
from collections.abc import Sequence

from runyard.environments.catalogue import FREE_SPACE
from runyard.environments.programs import Spoken
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.planning.passwords import hidden

QUOTED_LINES = 30
SIGNS: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    (Cause.DISK_FULL, re.compile(r"No space left on device|NoSpaceLeftError|Disk quota exceeded|os error 28", re.I)),
    (
        Cause.CHECKSUM,
        re.compile(
            r"ChecksumMismatch|checksum mismatch|invalid (MD5|SHA-256) checksum"
            r"|\b(md5|sha256)\b.{0,200}(mismatch|not match)|SafetyError",
            re.I,
        ),
    ),
    (
        Cause.WRONG_CREDENTIALS,
        re.compile(r"\b(HTTP|status|error|code|returned)\D{0,20}40[13]\b|Unauthorized|Forbidden", re.I),
    ),
    (Cause.CERTIFICATE, re.compile(r"certificate|SSLError|SSL connect error|SSL peer", re.I)),
    (
        Cause.NETWORK,
        re.compile(
            r"CondaHTTPError|ConnectionError|Connection (refused|reset|failed)|Could not (resolve|connect)"
            r"|Couldn't connect|timed? ?out|Name or service not known|download error|error sending request"
            r"|HTTP\D{0,20}5\d\d|UnavailableInvalidChannel|ChannelNotAllowed|404",
            re.I,
        ),
    ),
    (
        Cause.NO_SUCH_PACKAGE,
        re.compile(
            r"Packages?NotFoundError|ResolvePackageNotFound|Package missing in|nothing provides requested"
            r"|No candidates were found for|not available from current channels|does not exist \(perhaps a typo"
        ),
    ),
    (Cause.CONFLICT, re.compile(r"Unsatisfiable|incompatible|no viable options|conflict", re.I)),
    (Cause.NO_SUCH_PACKAGE, re.compile(r"does not exist")),
    (Cause.CONFLICT, re.compile(r"could not be installed|nothing provides|Cannot solve", re.I)),
)
NEXT_STEPS = {
    Cause.DISK_FULL: FREE_SPACE,
    Cause.CHECKSUM: "The channel's file is not the one that was promised: `{tool} clean --all`, then submit again.",
    Cause.WRONG_CREDENTIALS: "Put the channel's address with its user and password into the workspace's "
    "settings: `runyard environments settings conda_channels=NAME=https://USER:PASSWORD@HOST/NAME`.",
    Cause.CERTIFICATE: "Give the workspace the certificates of the channel's host: the setting ca_bundle.",
    Cause.OFFLINE: "The workspace is offline and the caches do not hold these packages: bring them "
    "there, or turn the setting offline off.",
    Cause.NETWORK: "Look at the network, the proxy settings and the channels' addresses (the workspace's "
    "setting conda_channels); then submit again.",
    Cause.NO_SUCH_PACKAGE: "Look at the name, the version and the channels; a package of the Python "
    "package index belongs into pip_packages.",
    Cause.KILLED: "Look whether the machine ran out of memory, then submit again.",
    Cause.CONFLICT: "Loosen the versions in conda_packages, or ask for another python.",
}
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
SOLVING = frozenset({Cause.NO_SUCH_PACKAGE, Cause.CONFLICT})


def conda_failed(tool: str, doing: str, result: Spoken, packages: Sequence[str], *, offline: bool) -> EnvironmentFailed:
    """The error for a failed conda tool: its cause, its output, and which of the user's packages it is about."""
    output = hidden("\n".join(line for line in result.lines[-QUOTED_LINES:] if line.strip()))
    cause = Cause.KILLED if result.exit_code in KILLED else _cause(output)
    if offline and cause in (Cause.NETWORK, Cause.NO_SUCH_PACKAGE, Cause.CONFLICT, Cause.CONDA_FAILED):
        cause = Cause.OFFLINE
    blamed = [line for line in packages if _is_named(line, output)] if cause in SOLVING else []
    about = f" It is about {', '.join(map(repr, blamed))}." if blamed else ""
    return EnvironmentFailed(
        f"The conda packages could not be had: {tool} failed {doing}.{about} It says:\n{output}",
        hint=NEXT_STEPS.get(cause, "Look at conda_packages and the channels, then submit again.").format(tool=tool),
        cause=cause,
        said=_telling_line(cause, output),
        packages=blamed,
    )


def _cause(output: str) -> Cause:
    return next((cause for cause, sign in SIGNS if sign.search(output)), Cause.CONDA_FAILED)


def _telling_line(cause: Cause, output: str) -> str:
    lines = output.splitlines()
    telling = (line.strip() for of, sign in SIGNS if of == cause for line in lines if sign.search(line))
    return next(telling, lines[-1] if lines else "")


def _is_named(line: str, output: str) -> bool:
    name = re.split(r"[\s=<>!~]", line.rpartition("::")[2], maxsplit=1)[0]
    return bool(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", output, re.I))
