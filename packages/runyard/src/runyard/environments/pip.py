import os
import tarfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from runyard.environments.failures import failed
from runyard.environments.indexes import pip_variables
from runyard.environments.programs import RunProgram, Say, run_saying
from runyard.environments.toolchain import compilers_at_once
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.plan import EnvironmentSpec
from runyard.planning.source_builds import SourceBuild


class Pip:
    """Runs the pip of an environment with the submitter's index settings.

    `scratch` is a private folder of this build. pip inherits the descriptors `held`, so their locks stay taken while
    it runs. `run` starts it, on this machine or in a container.
    """

    def __init__(
        self,
        python: Path,
        variables: Mapping[str, str],
        scratch: Path,
        held: Sequence[int],
        run: RunProgram = run_saying,
    ) -> None:
        self._python, self._variables, self._scratch, self._held = python, variables, scratch, held
        self._run_program = run

    def build_wheel(self, build: SourceBuild, options: Sequence[str], log: Say) -> Path:
        """Build the wheel of a source package against the packages of the environment. Raises EnvironmentFailed with
        the compiler's output."""
        beside = f" against {' and '.join(build.against)}" if build.against else ""
        jobs = compilers_at_once()
        log(f"Building {build.requirement}{beside} with {jobs} compilers at once. This takes minutes, and only once.")
        began = time.monotonic()
        # pip's own wheel cache ignores what a wheel was compiled against.
        command = ["wheel", "-v", "--no-cache-dir", "--no-build-isolation", "--no-deps", "-w", "built"]
        command += self._edited(build, options, log) if build.edits else self._wanted(build, options)
        self._run(build, f"compiling {build.requirement}{beside}", command, log)
        log(f"Built {build.requirement}{beside} in {time.monotonic() - began:.0f} s.")
        return self._only("built", "*.whl")

    def _wanted(self, build: SourceBuild, options: Sequence[str]) -> list[str]:
        wanted = self._scratch / "wanted.txt"
        wanted.write_text("\n".join([*options, build.requirement, ""]), encoding="utf-8")
        return ["--no-binary", ":all:", "-r", wanted.name]

    def _edited(self, build: SourceBuild, options: Sequence[str], log: Say) -> list[str]:
        """Download and unpack the source and apply its edits; returns pip's arguments for it."""
        command = ["download", "--no-deps", "--no-build-isolation", "-d", "source", *self._wanted(build, options)]
        self._run(build, f"fetching the source of {build.requirement}", command, log)
        _unpack(self._only("source", "*"), self._scratch / "unpacked")
        folder = self._only("unpacked", "*")
        for edit in build.edits:
            _edit(folder / edit.file, edit.old, edit.new, log)
        return ["--no-index", str(folder)]

    def _run(self, build: SourceBuild, doing: str, command: Sequence[str], log: Say) -> None:
        try:
            result = self._run_program(
                [str(self._python), "-m", "pip", *command],
                log,
                env=self._environment(build),
                cwd=self._scratch,
                held=self._held,
            )
        except OSError as error:
            raise EnvironmentFailed(
                f"The environment's pip could not be started: {error}.", cause=Cause.UNKNOWN, said=str(error)
            ) from error
        if result.exit_code:
            raise failed(doing, result.lines, EnvironmentSpec(requirements=(build.requirement,)), "pip")

    def _environment(self, build: SourceBuild) -> dict[str, str]:
        temporary = self._scratch / "tmp"
        temporary.mkdir(exist_ok=True)
        path = os.pathsep.join((str(self._python.parent), self._variables.get("PATH") or os.defpath))
        jobs = str(compilers_at_once())
        return {
            "MAKEFLAGS": f"-j{jobs}",
            "CMAKE_BUILD_PARALLEL_LEVEL": jobs,
            **pip_variables(self._variables),
            **build.variables,
            "PATH": path,
            "TMPDIR": str(temporary),
        }

    def _only(self, folder: str, pattern: str) -> Path:
        return next(iter((self._scratch / folder).glob(pattern)))


def _unpack(archive: Path, into: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(into)
        return
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")


def _edit(file: Path, old: str, new: str, log: Say) -> None:
    """Replace text in a source file; does nothing where the text is not there, as in other releases."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return
    if old in text:
        log(f"{file.name}: '{old}' becomes '{new}'.")
        file.write_text(text.replace(old, new), encoding="utf-8")
