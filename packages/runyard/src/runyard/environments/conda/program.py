import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import CondaSpec
from runyard.core.url_secrets import redacted
from runyard.environments.conda.channels import Channels
from runyard.environments.conda.explicit_lock import conda_part, installed_versions, remove_logins
from runyard.environments.conda.tool import CondaTool
from runyard.environments.failures import FREE_SPACE
from runyard.environments.index_settings import PASSED_ON
from runyard.environments.planning.conda_packages import parse_conda_line
from runyard.environments.programs import LogLine, ProgramResult, run_program

# The submitter's activated environment must not affect the build.
ACTIVATION = frozenset(
    {"CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER", "CONDA_EXE", "CONDA_PYTHON_EXE"}
)
QUIETLY = {
    "CONDA_REGISTER_ENVS": "false",
    "CONDA_REPORT_ERRORS": "false",
    "CONDA_NOTIFY_OUTDATED_CONDA": "false",
    "MAMBA_NO_PROGRESS_BARS": "true",
    "NO_COLOR": "1",
}


@dataclass(frozen=True)
class Conda:
    """Runs a conda tool for one build, with the variables of `PackageSources.with_certificates`.

    `scratch` is a private folder of this build. The tool inherits the descriptor `held`, so the builder lock stays
    taken while it runs.
    """

    tool: CondaTool
    variables: Mapping[str, str]
    channels: Channels
    scratch: Path
    held: int
    is_offline: bool = False

    def create(self, prefix: Path, python: str, conda: CondaSpec, log: LogLine) -> None:
        """Solve and install into a new prefix. Raises EnvironmentFailed with the tool's output."""
        command = [option for name in self.channels.names for option in ("--channel", name)]
        command += ["--override-channels", f"python={python}" if python else "python"]
        command += [self.channels.package(line) for line in conda.packages]
        self._create(prefix, command, "solving and installing them", conda.packages, log)
        self._require(prefix, conda.packages)

    def create_locked(self, prefix: Path, lock: str, log: LogLine) -> None:
        """Install exactly the packages of an explicit lock; the tool checks their checksums."""
        lines = [self.channels.with_login(line) for line in conda_part(lock).splitlines()]
        with _in_memory(self.scratch / "explicit.txt", "".join(f"{line}\n" for line in lines)) as (file, fd):
            self._create(prefix, ["--file", str(file)], "installing the locked packages", (), log, fd)

    def _create(
        self, prefix: Path, options: Sequence[str], doing: str, packages: Sequence[str], log: LogLine, *inherited: int
    ) -> None:
        command = [self.tool.path, "create", "--prefix", str(prefix), "--yes"]
        command += ["--quiet"] if self.tool.name == "conda" else []
        command += ["--offline"] if self.is_offline else []
        with self._configured() as (variables, fds):
            held = [self.held, *inherited, *fds]
            try:
                result = run_program([*command, *options], log, env=variables, cwd=self.scratch, held=held)
            except OSError as error:
                raise EnvironmentFailed(
                    f"{self.tool} could not be started: {error}.",
                    hint="Repair it, or set the workspace's setting conda to 'never'.",
                    cause=FailureCause.CONDA_FAILED,
                    said=str(error),
                ) from error
        if result.exit_code or not (prefix / "conda-meta").is_dir():
            raise conda_failed(self.tool.name, doing, result, packages, offline=self.is_offline)
        remove_logins(prefix)

    def _require(self, prefix: Path, packages: Sequence[str]) -> None:
        """Check that all packages are there: some versions of mamba skip unsolvable `channel::package` and exit 0."""
        there = installed_versions(prefix)
        missing = [line for line in packages if parse_conda_line(line).name not in there]
        if missing:
            raise EnvironmentFailed(
                f"{self.tool.name} has not installed {', '.join(map(repr, missing))}, and has not said why.",
                hint="Look at the build log for its warnings; leave out the channel in front of the package, or update "
                f"{self.tool.name}.",
                cause=FailureCause.CONDA_FAILED,
                said="",
                packages=missing,
            )

    @contextmanager
    def _configured(self) -> Iterator[tuple[dict[str, str], list[int]]]:
        """Variables for the tool, and descriptors that it must inherit."""
        kept = {name: value for name, value in self.variables.items() if _is_passed_on(name)}
        kept |= QUIETLY
        if "CONDA_SSL_VERIFY" in kept:
            kept["MAMBA_SSL_VERIFY"] = kept["CONDA_SSL_VERIFY"]
        configuration = self.channels.configuration()
        if not configuration:
            yield kept, []
            return
        if self.channels.has_logins and not self.is_offline:
            # The tool's own cache would keep addresses with logins; this one is removed with the build.
            kept["CONDA_PKGS_DIRS"] = str(self.scratch / "pkgs")
        with _in_memory(self.scratch / "condarc", json.dumps(configuration)) as (file, fd):  # JSON is YAML
            yield {**kept, "CONDARC": str(file)}, [fd]


@contextmanager
def _in_memory(link: Path, text: str) -> Iterator[tuple[Path, int]]:
    """A file in memory for programs that inherit the descriptor: its addresses may contain passwords, which must not
    stay on disk, even if this process is killed."""
    fd = os.memfd_create(link.name)
    try:
        with os.fdopen(os.dup(fd), "w", encoding="utf-8") as file:
            file.write(text)
        link.unlink(missing_ok=True)
        link.symlink_to(f"/proc/self/fd/{fd}")
        yield link, fd
    finally:
        link.unlink(missing_ok=True)
        os.close(fd)


def _is_passed_on(name: str) -> bool:
    return name in PASSED_ON or (name.startswith(("CONDA_", "MAMBA_")) and name not in ACTIVATION)


QUOTED_LINES = 30
SIGNS: tuple[tuple[FailureCause, re.Pattern[str]], ...] = (
    (
        FailureCause.DISK_FULL,
        re.compile(r"No space left on device|NoSpaceLeftError|Disk quota exceeded|os error 28", re.I),
    ),
    (
        FailureCause.CHECKSUM,
        re.compile(
            r"ChecksumMismatch|checksum mismatch|invalid (MD5|SHA-256) checksum"
            r"|\b(md5|sha256)\b.{0,200}(mismatch|not match)|SafetyError",
            re.I,
        ),
    ),
    (
        FailureCause.WRONG_CREDENTIALS,
        re.compile(r"\b(HTTP|status|error|code|returned)\D{0,20}40[13]\b|Unauthorized|Forbidden", re.I),
    ),
    (FailureCause.CERTIFICATE, re.compile(r"certificate|SSLError|SSL connect error|SSL peer", re.I)),
    (
        FailureCause.NETWORK,
        re.compile(
            r"CondaHTTPError|ConnectionError|Connection (refused|reset|failed)|Could not (resolve|connect)"
            r"|Couldn't connect|timed? ?out|Name or service not known|download error|error sending request"
            r"|HTTP\D{0,20}5\d\d|UnavailableInvalidChannel|ChannelNotAllowed|404",
            re.I,
        ),
    ),
    (
        FailureCause.NO_SUCH_PACKAGE,
        re.compile(
            r"Packages?NotFoundError|ResolvePackageNotFound|Package missing in|nothing provides requested"
            r"|No candidates were found for|not available from current channels|does not exist \(perhaps a typo"
        ),
    ),
    (FailureCause.CONFLICT, re.compile(r"Unsatisfiable|incompatible|no viable options|conflict", re.I)),
    (FailureCause.NO_SUCH_PACKAGE, re.compile(r"does not exist")),
    (FailureCause.CONFLICT, re.compile(r"could not be installed|nothing provides|Cannot solve", re.I)),
)
NEXT_STEPS = {
    FailureCause.DISK_FULL: FREE_SPACE,
    FailureCause.CHECKSUM: "The channel's file is not the one that was promised: `{tool} clean --all`, "
    "then submit again.",
    FailureCause.WRONG_CREDENTIALS: "Put the channel's address with its user and password into the workspace's "
    "settings: `runyard environments settings conda_channels=NAME=https://USER:PASSWORD@HOST/NAME`.",
    FailureCause.CERTIFICATE: "Give the workspace the certificates of the channel's host: the setting ca_bundle.",
    FailureCause.OFFLINE: "The workspace is offline and the caches do not hold these packages: bring them "
    "there, or turn the setting offline off.",
    FailureCause.NETWORK: "Look at the network, the proxy settings and the channels' addresses (the workspace's "
    "setting conda_channels); then submit again.",
    FailureCause.NO_SUCH_PACKAGE: "Look at the name, the version and the channels; a package of the Python "
    "package index belongs into pip_packages.",
    FailureCause.KILLED: "Look whether the machine ran out of memory, then submit again.",
    FailureCause.CONFLICT: "Loosen the versions in conda_packages, or ask for another python.",
}
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
SOLVING = frozenset({FailureCause.NO_SUCH_PACKAGE, FailureCause.CONFLICT})


def conda_failed(
    tool: str, doing: str, result: ProgramResult, packages: Sequence[str], *, offline: bool
) -> EnvironmentFailed:
    """The error for a failed conda tool: its cause, its output, and which of the user's packages it is about."""
    output = redacted("\n".join(line for line in result.lines[-QUOTED_LINES:] if line.strip()))
    cause = FailureCause.KILLED if result.exit_code in KILLED else _cause(output)
    if offline and cause in (
        FailureCause.NETWORK,
        FailureCause.NO_SUCH_PACKAGE,
        FailureCause.CONFLICT,
        FailureCause.CONDA_FAILED,
    ):
        cause = FailureCause.OFFLINE
    blamed = [line for line in packages if _is_named(line, output)] if cause in SOLVING else []
    about = f" It is about {', '.join(map(repr, blamed))}." if blamed else ""
    return EnvironmentFailed(
        f"The conda packages could not be had: {tool} failed {doing}.{about} It says:\n{output}",
        hint=NEXT_STEPS.get(cause, "Look at conda_packages and the channels, then submit again.").format(tool=tool),
        cause=cause,
        said=_telling_line(cause, output),
        packages=blamed,
    )


def _cause(output: str) -> FailureCause:
    return next((cause for cause, sign in SIGNS if sign.search(output)), FailureCause.CONDA_FAILED)


def _telling_line(cause: FailureCause, output: str) -> str:
    lines = output.splitlines()
    telling = (line.strip() for of, sign in SIGNS if of == cause for line in lines if sign.search(line))
    return next(telling, lines[-1] if lines else "")


def _is_named(line: str, output: str) -> bool:
    name = re.split(r"[\s=<>!~]", line.rpartition("::")[2], maxsplit=1)[0]
    return bool(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", output, re.I))
