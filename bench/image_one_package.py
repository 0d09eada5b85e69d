"""One pip package of an image environment changes its version, beside `docker build` with its cache.

The floor is the Dockerfile that a person writes for the same image: an interpreter, then a requirements file in one
step, which is done again. "a step for it alone" has the package that changes in a last step of its own. Every round
asks for a version that no round before it had. Our build has uv's cache; `docker build` can have none of pip's.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from ssl import get_default_verify_paths

from bench.engine import has_engine, open_engine
from bench.measuring import Measurement, Subject, interleaved, median, seconds_of, spread_of, times_floor
from bench.uv_by_hand import pip_install, usual_indexes, venv
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.launch_plan import EnvironmentSpec, ImageSpec
from runyard.environments.builder import LocalEnvironments
from runyard.environments.package_sources import PackageSources

PYTHON = "3.11"
STAYING = ("numpy==1.26.4", "pandas==2.1.4", "joblib==1.3.2")
VERSIONS = ("4.60.0", "4.61.2", "4.62.3", "4.63.2", "4.64.1", "4.65.2", "4.66.6", "4.67.1")
REPEATS = len(VERSIONS) - 2
Requirements = tuple[str, ...]


def measure() -> Iterator[Measurement]:
    if not has_engine("image_one_package"):
        return
    with open_engine() as base, tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        empty = _ensured(root, base, ())
        _fill_cache(root / "by-uv")
        subjects = {
            "floor": _by_docker(root / "usual", empty, lambda tqdm: [(*STAYING, tqdm)]),
            "a step for it alone": _by_docker(root / "apart", empty, lambda tqdm: [STAYING, (tqdm,)]),
            "ours": _next_version(lambda tqdm: _ensured(root, base, (*STAYING, tqdm))),
        }
        taken = interleaved(subjects, REPEATS, warm_up=2)
    seconds = {name: median(values) for name, values in taken.items()}
    yield Measurement(
        "one changed package of an image environment",
        seconds["ours"],
        "s",
        times_floor(1.2),
        seconds["floor"],
        spread_of(taken["ours"]),
        peers={"docker build, a step for it alone": seconds["a step for it alone"]},
    )


def _ensured(root: Path, base: str, requirements: Requirements) -> BuiltEnvironment:
    spec = EnvironmentSpec(python=PYTHON, requirements=requirements, image=ImageSpec(base=base))
    return LocalEnvironments(root / "environments", dict(os.environ)).ensure(spec, lambda line: None)


def _fill_cache(place: Path) -> None:
    venv(place, PYTHON)
    for version in VERSIONS:
        pip_install(place, [*STAYING, f"tqdm=={version}"], usual_indexes())


def _next_version(act: Callable[[str], object]) -> Subject:
    versions = iter(VERSIONS)
    return seconds_of(lambda: act(f"tqdm=={next(versions)}"))


def _by_docker(context: Path, empty: BuiltEnvironment, steps: Callable[[str], Sequence[Requirements]]) -> Subject:
    context.mkdir()
    certificates = Path(os.environ.get("PIP_CERT") or get_default_verify_paths().cafile or os.devnull)
    (context / "ca.pem").write_bytes(certificates.read_bytes())
    arguments = PackageSources(dict(os.environ)).build_args()
    given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    command = ["docker", "build", "--quiet", "--network", "host", *given, str(context)]
    head = [f"FROM {empty.image}", *(f"ARG {name}" for name in arguments)]
    head += ["COPY ca.pem /ca.pem", "ENV PIP_CERT=/ca.pem", f"RUN {empty.python} -m venv /environment"]

    def build(tqdm: str) -> None:
        installs = [f"RUN /environment/bin/pip install {' '.join(requirements)}" for requirements in steps(tqdm)]
        (context / "Dockerfile").write_text("\n".join([*head, *installs, ""]), encoding="utf-8")
        variables = {**os.environ, "DOCKER_BUILDKIT": "0"}
        subprocess.run(command, check=True, env=variables, capture_output=True)

    return _next_version(build)
