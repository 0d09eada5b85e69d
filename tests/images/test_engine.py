import pytest

from runyard.containers.containers import ContainerSpec
from runyard.containers.engine import Engine

pytestmark = pytest.mark.images


def test_a_container_runs_what_it_is_told(docker: Engine, debian: str) -> None:
    lines: list[str] = []
    done = docker.containers.run(ContainerSpec(debian, ("sh", "-c", "echo out; echo err >&2; exit 3")), lines.append)
    assert done.exit.status == 3
    assert sorted(lines) == ["err", "out"]
    assert docker.containers.state(done.id) is None
