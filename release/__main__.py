"""`python -m release --tools FOLDER --out FOLDER`: wheels, sdists, a lock with hashes and an SBOM, each verified."""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from release import trial
from release.contents import PACKAGES, REPOSITORY, faults_of
from release.trial import call
from runyard.core.version import VERSION

CONSTRAINTS = REPOSITORY / "constraints.txt"
UV = Path(sys.executable).with_name("uv")
SHIPPED = f"runyard[otel,postgres]=={VERSION}\n"
TESTED = f"runyard[otel,postgres,ray]=={VERSION}\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--tools", type=Path, required=True, help="the environment that has twine and cyclonedx-py")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    out, tools = given.out.resolve(), given.tools.resolve() / "bin"
    shutil.rmtree(out, ignore_errors=True)
    with step("build"):
        for package in PACKAGES:  # the wheel is built from the sdist, so the sdist is whole
            run(UV, "build", "--quiet", "--build-constraint", CONSTRAINTS, "--out-dir", out, package.folder)
        (out / ".gitignore").unlink(missing_ok=True)
    with step("contents"):
        faults = [fault for package in PACKAGES for fault in faults_of(package, out)]
        if faults:
            raise SystemExit("\n".join(faults))
    with step("twine check"):
        run(tools / "twine", "check", "--strict", *sorted(out.iterdir()))
    with step("locks"):
        _lock(out, "requirements.lock", SHIPPED)
        _lock(out, "requirements-dev.lock", TESTED, "--group", f"{REPOSITORY / 'pyproject.toml'}:dev")
    with tempfile.TemporaryDirectory(prefix="runyard-dist-") as folder:
        root = Path(folder)
        with step("install by uv"):
            by_uv = trial.by_uv(UV, root / "by-uv", out)
        with step("SBOM"):
            _sbom(tools, by_uv, out / f"runyard-{VERSION}.cdx.json")
        with step("install by pip"):
            by_pip = trial.by_pip(root / "by-pip", out)
        oldest = trial.python_3_6(root)
        if oldest:
            with step("install the SDK by pip of Python 3.6"):
                old_sdk = trial.sdk_by_pip(oldest, root / "old", out)
        for name, environment in {"uv": by_uv, "pip": by_pip}.items():
            with step(f"a run, installed by {name}"), trial.home(root / f"home-{name}", environment) as home:
                home.try_a_run()
                if oldest:
                    home.look_from(old_sdk)
    _write_sums(out)
    if not oldest:
        print("No Python 3.6 was found on this machine: the SDK's wheel was not installed there.")
    for file in sorted(out.iterdir()):
        print(f"{file.stat().st_size:>10,}  {file.relative_to(REPOSITORY) if REPOSITORY in file.parents else file}")


def run(*command: object) -> None:
    """Run to the end; the same commit gives the same bytes."""
    call(*command, more={"SOURCE_DATE_EPOCH": _time_of_the_commit()})


@contextmanager
def step(name: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)


@cache
def _time_of_the_commit() -> str:
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "0"


def _lock(out: Path, name: str, wanted: str, *more: str) -> None:
    """Every package that is installed, with the hashes of its files; our own are those just built.

    No name of an index is written: whoever installs has an index of their own.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".in") as source:
        source.write(wanted)
        source.flush()
        run(
            *(UV, "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"),
            *("--no-emit-index-url", "--no-annotate", "--no-header", "--find-links", out),
            *("--constraint", CONSTRAINTS, "--output-file", out / name, source.name, *more),
        )


def _sbom(tools: Path, environment: Path, file: Path) -> None:
    about = REPOSITORY / "packages" / "runyard" / "pyproject.toml"
    run(
        *(tools / "cyclonedx-py", "environment", "--pyproject", about, "--output-reproducible", "--of", "JSON"),
        *("--output-file", file, environment),
    )


def _write_sums(out: Path) -> None:
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
