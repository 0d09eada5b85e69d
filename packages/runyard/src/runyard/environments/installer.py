import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from runyard.environments.failures import failed
from runyard.environments.indexes import uv_options, uv_variables
from runyard.environments.interpreters import Interpreter
from runyard.environments.programs import RunProgram, Say, run_saying
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.plan import EnvironmentSpec
from runyard.planning.packages import requirement_name
from runyard.planning.passwords import hidden, shown

EXACT = re.compile(r"[\w.-]+==[\w.!+]+")


class Uv:
    """The uv program, run with the submitter's variables and pip's choice of indexes.

    `scratch` is a folder for its input, this builder's alone. The lock with the descriptor `held` stays taken while
    uv lives, even if we are killed: nobody else touches what it still writes to. `run` starts it, here or elsewhere.
    """

    def __init__(self, variables: Mapping[str, str], scratch: Path, held: int, run: RunProgram = run_saying) -> None:
        self._variables = variables
        self._scratch = scratch
        self._held = held
        self._run_program = run

    def resolve(self, spec: EnvironmentSpec, interpreter: Interpreter, say: Say) -> str:
        """Exact versions, with hashes, of everything the spec needs, without the passwords of addresses.
        EnvironmentFailed quotes uv."""
        return hidden(self._resolved(spec, interpreter, say))

    def _resolved(self, spec: EnvironmentSpec, interpreter: Interpreter, say: Say) -> str:
        if spec.preferences:
            preferred = replace(spec, constraints=(*spec.constraints, *spec.preferences), preferences=())
            try:
                return self.resolve(preferred, interpreter, unheard)
            except EnvironmentFailed:
                say(f"Your packages do not go together with {', '.join(spec.preferences)}; trying without.")
        choices = spec.choices or ((),)
        for choice in choices[:-1]:
            try:
                lock = self._compile(spec, choice, interpreter, unheard)
            except EnvironmentFailed:
                say(f"{' and '.join(choice)} cannot be had from the indexes and wheel folders here.")
            else:
                say(f"Taking {' and '.join(choice)}{_left_out(choice, choices[0])}.")
                return lock
        if len(choices) > 1:
            say(f"Taking {' and '.join(choices[-1])}, which may bring packages for GPUs along.")
        heard: list[str] = []
        try:
            return self._compile(spec, choices[-1], interpreter, heard.append if spec.python_instead else say)
        except EnvironmentFailed as failure:
            if not failure.facts.get("needs_python"):  # else another Python is tried, and these words would mislead
                for line in heard:
                    say(line)
            raise

    def install(
        self, lock: str, spec: EnvironmentSpec, into: Path, interpreter: Interpreter, say: Say, *, offline: bool
    ) -> None:
        """Put exactly the packages of the lock into an empty environment. EnvironmentFailed leaves it half filled."""
        options = "".join(f"{line}\n" for line in spec.requirements if line.startswith("-"))
        # uv knows the interpreter that the environment is made from already and would have to ask the new one.
        command = ["pip", "install", "--python", interpreter.path, "--prefix", str(into), "--no-deps"]
        command += self._listed("--build-constraints", spec.build_constraints)
        command += [
            "-r",
            self._written("lock.txt", options + shown(lock, spec.requirements)),
            *(["--offline"] if offline else []),
        ]
        self._run("installing the packages", command, spec, say)

    def install_wheel(self, wheel: Path, spec: EnvironmentSpec, into: Path, interpreter: Interpreter, say: Say) -> None:
        """Add one wheel to an environment that holds all it needs."""
        command = ["pip", "install", "--python", interpreter.path, "--prefix", str(into), "--no-deps", "--offline"]
        self._run(f"installing {wheel.name}", [*command, str(wheel)], spec, say)

    def exact(self, requirement: str, spec: EnvironmentSpec, interpreter: Interpreter) -> str:
        """The requirement with the version that it comes to, '' where it is not for this Python; as it is where it
        names a version or none at all."""
        if requirement == requirement_name(requirement) or EXACT.fullmatch(requirement):
            return requirement
        options = [line for line in spec.requirements if line.startswith("-")]
        alone = replace(spec, requirements=(*options, requirement), constraints=(), choices=(), preferences=())
        lines = self._compile(alone, (), interpreter, unheard, deps=False).splitlines()
        return next((line for line in lines if requirement_name(line)), "")

    def _compile(
        self, spec: EnvironmentSpec, choice: Sequence[str], interpreter: Interpreter, say: Say, *, deps: bool = True
    ) -> str:
        lock = self._scratch / "resolved.txt"
        lock.unlink(missing_ok=True)  # uv would prefer the versions it names
        command = ["pip", "compile", "--python", interpreter.path, "--no-header", "--no-annotate", "--quiet"]
        command += ["--generate-hashes"] if deps else ["--no-deps"]
        command += self._listed("--constraints", spec.constraints)
        command += self._listed("--build-constraints", spec.build_constraints)
        command += ["-o", str(lock), self._written("requirements.txt", "\n".join([*choice, *spec.requirements, ""]))]
        self._run("resolving the packages", command, spec, say)
        return lock.read_text(encoding="utf-8")

    def _run(self, doing: str, command: Sequence[str], spec: EnvironmentSpec, say: Say) -> None:
        """Run uv to its end; its lines go to `say` as they come."""
        command = [self._program, *command, *uv_options(self._variables)]
        try:
            spoken = self._run_program(
                command, say, env=uv_variables(self._variables, spec.requirements), cwd=self._scratch, held=[self._held]
            )
        except OSError as error:
            raise EnvironmentFailed(
                f"uv could not be started: {error}.",
                hint="Install it: pip install uv",
                cause=Cause.UNKNOWN,
                said=str(error),
            ) from error
        if spoken.exit_code:
            raise failed(doing, spoken.words, spec)

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


def unheard(line: str) -> None:
    """Takes the words of an attempt that may fail."""
