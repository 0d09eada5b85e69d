import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from runyard.environments.failures import failed
from runyard.environments.indexes import index_options, uv_variables
from runyard.environments.interpreters import Interpreter
from runyard.errors import EnvironmentFailed
from runyard.model.plan import EnvironmentSpec

Say = Callable[[str], None]


class Uv:
    """The uv program, run with the submitter's variables and pip's choice of indexes."""

    def __init__(self, variables: Mapping[str, str], working_folder: Path) -> None:
        self._variables = variables
        self._working_folder = working_folder

    def resolve(self, spec: EnvironmentSpec, interpreter: Interpreter, say: Say, held: int) -> str:
        """Exact versions, one a line, of everything the spec needs. EnvironmentFailed quotes uv."""
        choices = spec.choices or ((),)
        for choice in choices[:-1]:
            try:
                lock = self._compile(spec, choice, interpreter, _unheard, held)
            except EnvironmentFailed:
                say(f"{' and '.join(choice)} cannot be had from the indexes and wheel folders here.")
            else:
                say(f"Taking {' and '.join(choice)}.")
                return lock
        if len(choices) > 1:
            say(f"Taking {' and '.join(choices[-1])}, which may bring packages for GPUs along.")
        return self._compile(spec, choices[-1], interpreter, say, held)

    def install(
        self, lock: str, spec: EnvironmentSpec, into: Path, interpreter: Interpreter, say: Say, held: int
    ) -> None:
        """Put exactly the packages of the lock into an environment: from the cache alone where it has them all."""
        if not lock.strip():
            return
        with tempfile.TemporaryDirectory(dir=self._working_folder, prefix=".install-") as folder:
            options = "".join(f"{line}\n" for line in spec.requirements if line.startswith("-"))
            files = _written(Path(folder), {"lock.txt": options + lock, "build.txt": "\n".join(spec.build_constraints)})
            # uv knows the interpreter that the environment is made from already and would have to ask the new one.
            command = ["pip", "install", "--python", interpreter.path, "--prefix", str(into), "--no-deps"]
            command += ["--build-constraints", files["build.txt"], "-r", files["lock.txt"]]
            heard: list[str] = []
            if self._run([*command, "--offline"], heard.append, held) == 0:
                _say_all(heard, say)
                return
            words: list[str] = []
            if self._run(command, _both(words.append, say), held) != 0:
                raise failed("installing the packages", words, spec)

    def _compile(
        self, spec: EnvironmentSpec, choice: Sequence[str], interpreter: Interpreter, say: Say, held: int
    ) -> str:
        with tempfile.TemporaryDirectory(dir=self._working_folder, prefix=".resolve-") as folder:
            wanted = {
                "requirements.txt": "\n".join([*choice, *spec.requirements]) + "\n",
                "constraints.txt": "\n".join(spec.constraints),
                "build.txt": "\n".join(spec.build_constraints),
            }
            files = _written(Path(folder), wanted)
            lock = Path(folder, "lock.txt")
            command = ["pip", "compile", "--python", interpreter.path, "--no-header", "--no-annotate", "--quiet"]
            command += ["--constraints", files["constraints.txt"]]
            command += ["--build-constraints", files["build.txt"], "-o", str(lock), files["requirements.txt"]]
            words: list[str] = []
            if self._run(command, _both(words.append, say), held) != 0:
                raise failed("resolving the packages", words, spec)
            return lock.read_text(encoding="utf-8")

    def _run(self, command: Sequence[str], hear: Say, held: int) -> int:
        """Run uv to its end; its lines go to `hear`. The lock `held` stays taken while uv lives, even if we die."""
        try:
            process = subprocess.Popen(
                [self._program, *command, *self._index_options],
                env=self._environment,
                cwd=self._working_folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[held],
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise EnvironmentFailed(f"uv could not be started: {error}.", hint="Install it: pip install uv") from error
        with process:
            assert process.stdout
            for line in process.stdout:
                hear(line.rstrip("\n"))
        return process.returncode

    @cached_property
    def _program(self) -> str:
        from uv import find_uv_bin

        return os.fspath(find_uv_bin())

    @cached_property
    def _environment(self) -> dict[str, str]:
        return uv_variables(self._variables)

    @cached_property
    def _index_options(self) -> list[str]:
        return index_options(self._variables)


def _written(folder: Path, contents: Mapping[str, str]) -> dict[str, str]:
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name: str(folder / name) for name in contents}


def _both(first: Say, second: Say) -> Say:
    def hear(line: str) -> None:
        first(line)
        second(line)

    return hear


def _say_all(lines: Sequence[str], say: Say) -> None:
    for line in lines:
        say(line)


def _unheard(line: str) -> None:
    """Takes the words of an attempt that may fail."""
