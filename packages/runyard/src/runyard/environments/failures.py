import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.core.disk import is_disk_full
from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.url_secrets import redacted
from runyard.environments.planning.packages import normalized_name, requirement_name

QUOTED_LINES = 40
QUOTED_CHARACTERS = 1000
PROBLEMS = {
    FailureCause.DISK_FULL: "The disk filled up while {doing}.",
    FailureCause.NETWORK: "A package index could not be reached while {doing}.",
    FailureCause.OFFLINE: "The workspace is offline, and not all that is needed is in the caches: {doing} failed.",
    FailureCause.WRONG_CREDENTIALS: "A package index refuses the credentials: {doing} failed.",
    FailureCause.CERTIFICATE: "The certificate of a package index is not trusted: {doing} failed.",
    FailureCause.KILLED: "The build was killed: {doing} failed.",
}


def program_failed(doing: str, lines: Sequence[str], spec: EnvironmentSpec, program: str = "uv") -> EnvironmentFailed:
    """The error for a program that failed: its cause, its output, and which of the user's packages it is about."""
    lines = [redacted(line) for line in lines]
    found = diagnose(lines)
    package = normalized_name(found.package)
    quoted = "\n".join(line[:QUOTED_CHARACTERS] for line in lines[-QUOTED_LINES:] if line.strip())
    problem = PROBLEMS.get(found.cause, "The environment could not be made: {doing} failed.").format(doing=doing)
    return EnvironmentFailed(
        f"{problem} {program} says:\n{quoted}",
        hint=found.hint or _hint(package, spec),
        cause=found.cause,
        said=found.said[:QUOTED_CHARACTERS],
        package=package,
        needs_python=found.needs_python,
    )


def write_failed(root: Path, error: OSError) -> EnvironmentFailed:
    """The error for a file or folder below `root` that could not be written."""
    is_full = is_disk_full(error)
    return EnvironmentFailed(
        f"The environment could not be written to {root}: {error.strerror or error}.",
        hint=FREE_SPACE if is_full else "Set RUNYARD_HOME to a folder that can be written, on a disk with room.",
        cause=FailureCause.DISK_FULL if is_full else FailureCause.UNKNOWN,
        said=str(error),
    )


def _hint(package: str, spec: EnvironmentSpec) -> str:
    asked = [line for line in _asked(spec) if requirement_name(line)]
    own_lines = [line for line in asked if package and requirement_name(line) == package]
    if own_lines:
        return f"Look at {own_lines[0]!r} in pip_packages, conda_packages or the requirements file, then submit again."
    if package:
        return f"'{package}' is needed by one of your packages ({', '.join(asked[:8])}); change their versions."
    return "Change pip_packages, conda_packages or the requirements file, then submit again."


def _asked(spec: EnvironmentSpec) -> list[str]:
    return [*spec.requirements, *(line for choice in spec.choices for line in choice)]


PACKAGE = r"(?P<package>\b[A-Za-z0-9][A-Za-z0-9._-]{0,100})"
PROGRAMS = (
    r"[\w./+-]*(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|gfortran|nvcc|mpicc|mpicxx|cmake|make|ninja|rustc|cargo|swig"
    r"|pkg-config)"
)
FREE_SPACE = "Free space, for example with `runyard environments prune` and `runyard gc`, and submit again."
CHECK_NETWORK = (
    "Check the network, and the proxy and index settings: those of the workspace (`runyard environments "
    "settings`), or https_proxy and PIP_INDEX_URL of the shell or notebook that submits; then submit again."
)
LESS_BESIDE = (
    "Something ended the build, most often the machine when memory was short. Submit again with less beside it, or "
    "take a version of {package} that has a wheel."
)
OTHER_FILE = (
    "The file that the index has now is another than the locked one, or came damaged. Where the change is meant, "
    "give {package} a new version."
)
FIRST_LINES, LAST_LINES, LONGEST = 50, 300, 2000
OTHER_FILES = (
    "Take a version that has wheels for this machine, or give a wheel folder that holds one (find_links of the "
    "workspace); a source package would be compiled."
)


@dataclass(frozen=True)
class FailurePattern:
    """Output of uv, pip, a build backend or a compiler that means a cause.

    A hint may name what the pattern found: {package}, {here}, {needed}, {missing}. An empty hint means: point at the
    line of the user's package list.
    """

    cause: FailureCause
    pattern: re.Pattern[str]
    hint: str = ""
    later: re.Pattern[str] | None = None
    """Must match anywhere after the pattern."""

    def search(self, text: str) -> re.Match[str] | None:
        found = self.pattern.search(text)
        # The first match has the longest rest: if `later` is not in it, no other match has it.
        return found if found is None or self.later is None or self.later.search(text, found.end()) else None


@dataclass(frozen=True)
class Diagnosis:
    cause: FailureCause
    said: str  # the name in the wire format
    """Line of the tool's output that explains the failure."""
    hint: str
    package: str = ""
    needs_python: str = ""


def _patterns(cause: FailureCause, hint: str, *patterns: str, later: str = "") -> tuple[FailurePattern, ...]:
    return tuple(
        FailurePattern(cause, re.compile(pattern), hint, re.compile(later) if later else None) for pattern in patterns
    )


# The first match counts: root causes stand before what a resolver concludes from them.
FAILURE_PATTERNS: tuple[FailurePattern, ...] = (
    *_patterns(
        FailureCause.DISK_FULL, FREE_SPACE, r"No space left on device", r"os error 28\b", r"Disk quota exceeded"
    ),
    *_patterns(FailureCause.KILLED, LESS_BESIDE, rf"Failed to build `{PACKAGE}[^`]{{0,200}}`", later="signal: 9"),
    *_patterns(
        FailureCause.KILLED,
        LESS_BESIDE,
        r"signal: (?:9|15) \(SIG\w+\)",
        r"fatal error: Killed signal terminated program",
    ),
    *_patterns(
        FailureCause.CHECKSUM, OTHER_FILE, rf"Hash mismatch for `{PACKAGE}", r"THESE PACKAGES DO NOT MATCH THE HASHES"
    ),
    *_patterns(
        FailureCause.CHECKSUM,
        OTHER_FILE,
        rf"Failed to (?:download|read|extract|unzip)[^`]{{0,200}}`{PACKAGE}[^`]{{0,200}}`",
        later="[Zz]ip|archive|decompress",
    ),
    *_patterns(
        FailureCause.CHECKSUM,
        OTHER_FILE,
        r"Failed to read from zip file|(?:[Ii]nvalid|bad) (?:[Zz]ip|gzip|tar)",
    ),
    *_patterns(
        FailureCause.CERTIFICATE,
        "Give the certificates that its server is to be trusted by as ca_bundle of the workspace (`runyard "
        "environments settings`), or as SSL_CERT_FILE where you submit; then submit again.",
        r"invalid peer certificate",
        r"CERTIFICATE_VERIFY_FAILED",
        r"certificate verify failed",
        r"self[- ]signed certificate",
    ),
    *_patterns(
        FailureCause.WRONG_CREDENTIALS,
        "Put the right user name and password into the index address: index_url of the workspace (`runyard "
        "environments settings`), or PIP_INDEX_URL where you submit; then submit again.",
        r"lack of valid authentication credentials",
        r"Authentication failed for|could not read (?:Username|Password) for",
        r"\b401 (?:Client Error|Unauthorized)|\b(?:401|403) (?:Unauthorized|Forbidden)|407 Proxy Authentication",
    ),
    *_patterns(
        FailureCause.OFFLINE,
        "The workspace is offline: only what is in the caches can be had. Build once with a network, give a folder of "
        "wheels (find_links), or end offline mode with `runyard environments settings offline=false`.",
        r"the network was disabled",
        r"[Nn]etwork connectivity is disabled",
        rf"Because {PACKAGE} was not found in the cache",
        r"requested data wasn't found in the cache",
    ),
    *_patterns(
        FailureCause.NO_SUCH_PACKAGE,
        "There is nothing at that address: correct it in pip_packages or the requirements file, then submit again. A "
        "path must be of the machine that builds.",
        r"Distribution not found at:",
        r"HTTP status client error \(404 Not Found\) for url",
        r"does not appear to be a git repository|[Rr]epository .{0,300}not found|couldn't find remote ref",
    ),
    *_patterns(
        FailureCause.NETWORK,
        "There is no such folder on the machine that builds: correct or remove it in find_links of the workspace "
        "(`runyard environments settings`), or in PIP_FIND_LINKS and pip.conf where you submit; then submit again.",
        r"Failed to read `--find-links` directory",
    ),
    *_patterns(
        FailureCause.NETWORK,
        CHECK_NETWORK,
        r"error sending request for url",
        r"HTTP status (?:server|client) error",
        r"error decoding response body",
        r"[Rr]eceived some unexpected (?:JSON|HTML)",
        r"operation timed out|Read timed out|ConnectTimeoutError|NewConnectionError|Max retries exceeded",
        r"Temporary failure in name resolution|failed to lookup address|Could not resolve host",
        r"fatal: unable to access '",
    ),
    *_patterns(
        FailureCause.NOT_FOR_THIS_PYTHON,
        "'{package}' needs Python {needed}, and this environment has {here}: ask for another python or {package}.",
        r"current Python version \((?P<here>[0-9.]+)\) does not satisfy Python(?P<needed>[<>=!~0-9.,]+) "
        rf"and {PACKAGE}",
    ),
    *_patterns(
        FailureCause.NOT_FOR_THIS_PYTHON,
        "'{package}' needs Python {needed}: ask for another python or {package}.",
        rf"Because {PACKAGE}==[^ ]+ requires Python (?P<needed>[<>=!~0-9.,]+)",
        rf"Package '{PACKAGE}' requires a different Python: \S+ not in '(?P<needed>[^']+)'",
    ),
    *_patterns(
        FailureCause.NOT_FOR_THIS_PYTHON,
        "'{package}' has no wheel for this Python: ask for another python, or for a version that has one.",
        rf"[Bb]ecause {PACKAGE}(?:==[^ ]+)? has no wheels? with a matching Python (?:ABI|version|implementation)? ?tag",
    ),
    *_patterns(
        FailureCause.ARCHITECTURE,
        OTHER_FILES,
        rf"[Bb]ecause {PACKAGE}(?:==[^ ]+)? has no wheels? with a matching platform tag",
        rf"ERROR: {PACKAGE}[^ ]* is not a supported wheel on this platform",
        rf"(?:distribution|wheel|package) `?{PACKAGE}[^`]{{0,200}}`? (?:can't|cannot) be installed.{{0,200}}platform",
        r"not compatible with the current (?:platform|Python)",
    ),
    *_patterns(
        FailureCause.HEADER_MISSING,
        "Install the package of this machine that has {missing}, such as a -dev or -devel package, or take a version "
        "of the Python package that has a wheel; then submit again.",
        r"fatal error: (?P<missing>[\w./+-]+\.\w+): No such file or directory",
        r"cannot find -l(?P<missing>[\w.+-]+)",
        r"Could NOT find (?P<missing>[\w.+-]+)",
    ),
    *_patterns(
        FailureCause.COMPILER_MISSING,
        "It must be compiled, and {missing} is not on this machine: install it, for example with `apt install "
        "build-essential cmake` or `dnf install gcc-c++ make cmake`, or take a version that has a wheel.",
        rf"[Cc]ommand '(?P<missing>{PROGRAMS})' failed: No such file",
        rf"unable to execute '(?P<missing>{PROGRAMS})'",
        rf"No such file or directory: '(?P<missing>{PROGRAMS})'",
        r"\b(?P<missing>[\w+]{1,20}): (?:command )?not found",
        r"\b(?P<missing>[\w+]{1,20}) must be installed to build",
        r"No (?P<missing>CMAKE_\w+_COMPILER) could be found",
        r"can't find (?P<missing>Rust) compiler",
        r"(?P<missing>Git) executable not found",
    ),
    *_patterns(
        FailureCause.BUILD_FAILED,
        "'{package}' has no wheel for this Python and machine, and its source cannot be built here; the log has all "
        "that was said. Take another version of it, or another python.",
        rf"Failed to build `{PACKAGE}",
        rf"Failed building wheel for {PACKAGE}",
    ),
    *_patterns(
        FailureCause.BUILD_FAILED,
        "The log has all that was said. Another version of it, or of what it is built against, may do.",
        r"The build backend returned an error",
        r"error: subprocess-exited-with-error",
        r"metadata-generation-failed",
    ),
    *_patterns(
        FailureCause.NO_SUCH_PACKAGE,
        "",
        rf"Because {PACKAGE}(?:\[[^\]]*\])?(?:[=<>!~][^ ]*)? was not found",
        rf"Because there are no versions of {PACKAGE} and",
        rf"No matching distribution found for {PACKAGE}$",
    ),
    *_patterns(
        FailureCause.NO_SUCH_VERSION,
        "",
        rf"[Bb]ecause there (?:is|are) no versions? of {PACKAGE}",
        rf"[Bb]ecause only (?:the following versions of )?{PACKAGE}[^ ]* (?:is|are) available",
        rf"No matching distribution found for {PACKAGE}",
    ),
    *_patterns(
        FailureCause.CONFLICT,
        "",
        rf"Because (?:only )?(?:all versions of )?(?!the\b|there\b|only\b|you\b|we\b|all\b){PACKAGE}[^ ]* depends? on",
        r"(?:are|is) incompatible|requirements are unsatisfiable|ResolutionImpossible|conflicting dependencies",
    ),
)


def diagnose(lines: Sequence[str]) -> Diagnosis:
    """Find the first pattern in the output; Cause.UNKNOWN and the last line where none matches."""
    searched = lines if len(lines) <= FIRST_LINES + LAST_LINES else [*lines[:FIRST_LINES], *lines[-LAST_LINES:]]
    text = "\n".join(line[:LONGEST] for line in searched)
    for row in FAILURE_PATTERNS:
        match = row.search(text)
        if match:
            named = {name: value or "" for name, value in match.groupdict().items()}
            shown = {"package": "it", "missing": "what it asks for", "here": "another", "needed": "another", **named}
            line = text[text.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0].strip()
            return Diagnosis(
                row.cause, line, row.hint.format(**shown), named.get("package", ""), named.get("needed", "")
            )
    last = next((line for line in reversed(lines) if line.strip()), "")
    return Diagnosis(FailureCause.UNKNOWN, last.strip(), "")
