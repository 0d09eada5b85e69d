"""The gateway has room for many clients whatever the shell that started it has, and its workers have what is usual."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.hosting import Hosting


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = min(soft, hard // 2, 1024)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    yield few
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def soft_limit(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max open"))
    return int(line.split()[3])


def test_a_gateway_takes_all_the_descriptors_that_it_can_have(few_descriptors: int, hosting: Hosting) -> None:
    hosting.deploy(spec := hosting.spec())
    (worker,) = hosting.workers(spec)
    assert soft_limit(hosting.gateway()) == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert soft_limit(worker) == few_descriptors
