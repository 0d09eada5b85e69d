"""From submit() on a warm service to the first line of a script in a container, in the follower's hands.

The floor is `docker run` of the same command in the same image, with the same network and the script mounted.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from azureml.core import Environment
from azureml.core.runconfig import DockerConfiguration
from bench.engine import has_engine, open_engine
from bench.following import follow
from bench.home import Home, open_home
from bench.measuring import Measurement, Subject, above_floor, interleaved, median, spread_of
from runyard.environments.cache import list_built
from runyard.environments.folder import EnvironmentFolder

REPEATS = 21
SCRIPT = "print('first line', flush=True)\n"


def measure() -> Iterator[Measurement]:
    if not has_engine("container_first_line"):
        return
    with open_engine() as base, open_home() as home:
        environment = Environment("first-line")
        environment.docker.base_image = base
        config = home.config("first-line", SCRIPT)
        config.run_config.environment = environment
        config.run_config.docker = DockerConfiguration(use_docker=True)
        follow(home.submit(config))  # builds the environment
        script = home.root / "sources" / "first-line" / "script.py"
        subjects = {"floor": _by_docker(home, script), "ours": _submitted(home, config)}
        taken = interleaved(subjects, REPEATS, warm_up=2)
    value, floor = median(taken["ours"]), median(taken["floor"])
    yield Measurement(
        "submit to first line in a container", value, "ms", above_floor(300, "ms"), floor, spread_of(taken["ours"])
    )


def _by_docker(home: Home, script: Path) -> Subject:
    image, python = _image_of(home)
    mount = f"{script}:{script}:ro"
    command = ["docker", "run", "--rm", "--network", "host", "--volume", mount, image, python, str(script)]

    def subject() -> float:
        begun = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline() == b"first line\n"
            taken = time.perf_counter() - begun
        return taken * 1000

    return subject


def _image_of(home: Home) -> tuple[str, str]:
    """The one that was built, and its interpreter."""
    root = home.path / "environments"
    (built,) = list_built(root)
    facts = EnvironmentFolder(root, built.key).facts()
    assert facts
    return built.image, facts.image["python"]


def _submitted(home: Home, config: Any) -> Subject:
    def subject() -> float:
        begun = time.time()
        lines = follow(home.submit(config))
        return (next(seen for line, seen in lines if line == "first line") - begun) * 1000

    return subject
