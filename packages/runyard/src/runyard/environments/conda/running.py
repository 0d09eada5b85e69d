import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runyard.environments.conda.channels import Channels
from runyard.environments.conda.explicit import explicit_part, forget_logins, installed
from runyard.environments.conda.failures import conda_failed
from runyard.environments.conda.finding import CondaTool
from runyard.environments.indexes import PASSED_ON
from runyard.environments.programs import Say, run_saying
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.plan import CondaSpec
from runyard.planning.conda_lines import parse_conda_line

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

    def create(self, prefix: Path, python: str, conda: CondaSpec, log: Say) -> None:
        """Solve and install into a new prefix. Raises EnvironmentFailed with the tool's output."""
        command = [option for name in self.channels.names for option in ("--channel", name)]
        command += ["--override-channels", f"python={python}" if python else "python"]
        command += [self.channels.package(line) for line in conda.packages]
        self._create(prefix, command, "solving and installing them", conda.packages, log)
        self._require(prefix, conda.packages)

    def create_locked(self, prefix: Path, lock: str, log: Say) -> None:
        """Install exactly the packages of an explicit lock; the tool checks their checksums."""
        lines = [self.channels.with_login(line) for line in explicit_part(lock).splitlines()]
        with _in_memory(self.scratch / "explicit.txt", "".join(f"{line}\n" for line in lines)) as (file, fd):
            self._create(prefix, ["--file", str(file)], "installing the locked packages", (), log, fd)

    def _create(
        self, prefix: Path, options: Sequence[str], doing: str, packages: Sequence[str], log: Say, *inherited: int
    ) -> None:
        command = [self.tool.path, "create", "--prefix", str(prefix), "--yes"]
        command += ["--quiet"] if self.tool.name == "conda" else []
        command += ["--offline"] if self.is_offline else []
        with self._configured() as (variables, fds):
            held = [self.held, *inherited, *fds]
            try:
                result = run_saying([*command, *options], log, env=variables, cwd=self.scratch, held=held)
            except OSError as error:
                raise EnvironmentFailed(
                    f"{self.tool} could not be started: {error}.",
                    hint="Repair it, or set the workspace's setting conda to 'never'.",
                    cause=Cause.CONDA_FAILED,
                    said=str(error),
                ) from error
        if result.exit_code or not (prefix / "conda-meta").is_dir():
            raise conda_failed(self.tool.name, doing, result, packages, offline=self.is_offline)
        forget_logins(prefix)

    def _require(self, prefix: Path, packages: Sequence[str]) -> None:
        """Check that all packages are there: some versions of mamba skip unsolvable `channel::package` and exit 0."""
        there = installed(prefix)
        missing = [line for line in packages if parse_conda_line(line).name not in there]
        if missing:
            raise EnvironmentFailed(
                f"{self.tool.name} has not installed {', '.join(map(repr, missing))}, and has not said why.",
                hint="Look at the build log for its warnings; leave out the channel in front of the package, or update "
                f"{self.tool.name}.",
                cause=Cause.CONDA_FAILED,
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
        if self.channels.have_logins and not self.is_offline:
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
