"""The environment of `TensorFlow(framework_version='1.13')`, its packages in uv's cache, beside uv by hand.

Both resolve the packages: what an earlier build has locked is taken away before each round.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measuring import Measurement, Subject, interleaved, median, seconds_of, spread_of, times_floor
from bench.uv_by_hand import beside_the_cache, pip_install, usual_indexes, venv
from runyard.core.definitions.run import RunDefinition
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.builder import LocalEnvironments, prune_environments
from runyard.environments.planning.environment_spec import plan_environment

REPEATS = 5
DEFINITION = {"runyard": {"estimator": {"framework": "TensorFlow", "version": "1.13", "use_gpu": False}}}


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory(dir=beside_the_cache()) as folder:
        root, spec = Path(folder) / "environments", plan_environment(RunDefinition.parse(DEFINITION), gpu_present=False)
        built = LocalEnvironments(root, dict(os.environ)).ensure(spec, lambda line: None)
        python = Path(os.path.realpath(built.python))
        subjects = {"floor": _by_hand(Path(folder), spec, python), "ours": _ours(root, spec)}
        taken = interleaved(subjects, REPEATS)
    yield Measurement(
        "TensorFlow 1.13 environment, warm cache",
        median(taken["ours"]),
        "s",
        times_floor(1.3),
        median(taken["floor"]),
        spread_of(taken["ours"]),
    )


def _ours(root: Path, spec: EnvironmentSpec) -> Subject:
    measured = seconds_of(lambda: LocalEnvironments(root, dict(os.environ)).ensure(spec, lambda line: None))

    def subject() -> float:
        assert prune_environments(root), "the environment of the round before should have been removed"
        shutil.rmtree(root / "locks")
        return measured()

    return subject


def _by_hand(folder: Path, spec: EnvironmentSpec, python: Path) -> Subject:
    place, constraints, builds = folder / "by-uv", folder / "constraints.txt", folder / "build-constraints.txt"
    constraints.write_text("\n".join(spec.constraints), encoding="utf-8")
    builds.write_text("\n".join(spec.build_constraints), encoding="utf-8")
    files = ["--constraint", str(constraints), "--build-constraint", str(builds)]
    variables = usual_indexes()

    def install() -> None:
        venv(place, python)
        pip_install(place, [*files, *spec.requirements], variables)

    return seconds_of(install)
