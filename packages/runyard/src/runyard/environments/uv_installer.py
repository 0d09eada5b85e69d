import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.url_secrets import redacted, unredacted
from runyard.environments.failures import program_failed
from runyard.environments.index_settings import uv_options, uv_variables
from runyard.environments.interpreters import Interpreter
from runyard.environments.planning.packages import requirement_name
from runyard.environments.programs import LogLine, RunProgram, run_program

EXACT = re.compile(r"[\w.-]+==[\w.!+]+")


class Uv:
    """Runs uv with the submitter's variables and pip's index settings.

    `scratch` is a private folder of this build. uv inherits the descriptor `held`, so the builder lock stays taken
    while uv runs, even if this process is killed. `run` starts it, on this machine or in a container.
    """

    def __init__(self, variables: Mapping[str, str], scratch: Path, held: int, run: RunProgram = run_program) -> None:
        self._variables = variables
        self._scratch = scratch
        self._held = held
        self._run_program = run

    def resolve(self, spec: EnvironmentSpec, interpreter: Interpreter, log: LogLine) -> str:
        """Resolve the spec to exact versions with hashes, with secrets of URLs redacted. Raises EnvironmentFailed with
        uv's output."""
        return redacted(self._resolved(spec, interpreter, log))

    def _resolved(self, spec: EnvironmentSpec, interpreter: Interpreter, log: LogLine) -> str:
        if spec.preferences:
            preferred = replace(spec, constraints=(*spec.constraints, *spec.preferences), preferences=())
            try:
                return self.resolve(preferred, interpreter, discard_line)
            except EnvironmentFailed:
                log(f"Your packages do not go together with {', '.join(spec.preferences)}; trying without.")
        choices = spec.choices or ((),)
        for choice in choices[:-1]:
            try:
                lock = self._compile(spec, choice, interpreter, discard_line)
            except EnvironmentFailed:
                log(f"{' and '.join(choice)} cannot be had from the indexes and wheel folders here.")
            else:
                log(f"Taking {' and '.join(choice)}{_left_out(choice, choices[0])}.")
                return lock
        if len(choices) > 1:
            log(f"Taking {' and '.join(choices[-1])}, which may bring packages for GPUs along.")
        output: list[str] = []
        try:
            return self._compile(spec, choices[-1], interpreter, output.append if spec.python_instead else log)
        except EnvironmentFailed as failure:
            if not failure.facts.get(
                "needs_python"
            ):  # else the caller tries another Python, and this output would mislead
                for line in output:
                    log(line)
            raise

    def install(
        self, lock: str, spec: EnvironmentSpec, into: Path, interpreter: Interpreter, log: LogLine, *, offline: bool
    ) -> None:
        """Install exactly the packages of the lock into an empty environment. A failure leaves it half filled."""
        options = "".join(f"{line}\n" for line in spec.requirements if line.startswith("-"))
        # uv has cached the facts of the base interpreter; it would have to start the new one.
        command = ["pip", "install", "--python", interpreter.path, "--prefix", str(into), "--no-deps"]
        command += self._listed("--build-constraints", spec.build_constraints)
        command += [
            "-r",
            self._written("lock.txt", options + unredacted(lock, spec.requirements)),
            *(["--offline"] if offline else []),
        ]
        self._run("installing the packages", command, spec, log)

    def install_wheel(
        self, wheel: Path, spec: EnvironmentSpec, into: Path, interpreter: Interpreter, log: LogLine
    ) -> None:
        """Install one wheel into an environment that has its dependencies."""
        command = ["pip", "install", "--python", interpreter.path, "--prefix", str(into), "--no-deps", "--offline"]
        self._run(f"installing {wheel.name}", [*command, str(wheel)], spec, log)

    def exact(self, requirement: str, spec: EnvironmentSpec, interpreter: Interpreter) -> str:
        """The requirement with an exact version: unchanged if it is exact or has no version; '' if its marker excludes
        this Python."""
        if requirement == requirement_name(requirement) or EXACT.fullmatch(requirement):
            return requirement
        options = [line for line in spec.requirements if line.startswith("-")]
        alone = replace(spec, requirements=(*options, requirement), constraints=(), choices=(), preferences=())
        lines = self._compile(alone, (), interpreter, discard_line, deps=False).splitlines()
        return next((line for line in lines if requirement_name(line)), "")

    def _compile(
        self, spec: EnvironmentSpec, choice: Sequence[str], interpreter: Interpreter, log: LogLine, *, deps: bool = True
    ) -> str:
        lock = self._scratch / "resolved.txt"
        lock.unlink(missing_ok=True)  # uv prefers versions of an existing output file
        command = ["pip", "compile", "--python", interpreter.path, "--no-header", "--no-annotate", "--quiet"]
        command += ["--generate-hashes"] if deps else ["--no-deps"]
        command += self._listed("--constraints", spec.constraints)
        command += self._listed("--build-constraints", spec.build_constraints)
        command += ["-o", str(lock), self._written("requirements.txt", "\n".join([*choice, *spec.requirements, ""]))]
        self._run("resolving the packages", command, spec, log)
        return lock.read_text(encoding="utf-8")

    def _run(self, doing: str, command: Sequence[str], spec: EnvironmentSpec, log: LogLine) -> None:
        command = [self._program, *command, *uv_options(self._variables)]
        try:
            result = self._run_program(
                command, log, env=uv_variables(self._variables, spec.requirements), cwd=self._scratch, held=[self._held]
            )
        except OSError as error:
            raise EnvironmentFailed(
                f"uv could not be started: {error}.",
                hint="Install it: pip install uv",
                cause=FailureCause.UNKNOWN,
                said=str(error),
            ) from error
        if result.exit_code:
            raise program_failed(doing, result.lines, spec)

    def _listed(self, option: str, lines: Sequence[str]) -> list[str]:
        return [option, self._written(f"{option.strip('-')}.txt", "\n".join(lines))] if lines else []

    def _written(self, name: str, text: str) -> str:
        (self._scratch / name).write_text(text, encoding="utf-8")
        return str(self._scratch / name)

    @cached_property
    def _program(self) -> str:
        from uv import find_uv_bin

        return os.fspath(find_uv_bin())


def _left_out(taken: Sequence[str], best: Sequence[str]) -> str:
    names = {line.partition("==")[0] for line in taken}
    missing = [line for line in best if line.partition("==")[0] not in names]
    return f" without {' and '.join(missing)}, which the script cannot import" if missing else ""


def discard_line(line: str) -> None:
    """A log for attempts that may fail."""
