import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import require
from tests.node.mpi.job import MpiJob

_networks = itertools.count(1)


@pytest.fixture
def start_job(tmp_path: Path) -> Iterator:
    """A job on two nodes; whatever is left of it at the end is killed."""
    require("mpi")
    jobs = []

    def start(*command: str, ranks_per_node: int = 2, **options) -> MpiJob:
        home = tmp_path / "a home"
        home.mkdir()
        number = next(_networks) % 250
        job = MpiJob(home, [f"127.0.{number}.2", f"127.0.{number}.3"], ranks_per_node, **options)
        jobs.append(job)
        job.start(*command)
        return job

    yield start
    for job in jobs:
        job.close()
