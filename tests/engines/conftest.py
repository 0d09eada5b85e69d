from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.ray_cluster import RayCluster, ray_cluster
from tests.node.recording_service import RecordingService


@pytest.fixture
def peer(home: Path) -> Iterator[RecordingService]:
    service = RecordingService(home)
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """Three nodes of two CPUs, shared by tests that leave it as it was."""
    with ray_cluster() as started, pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in started.variables.items():
            monkeypatch.setenv(name, value)
        started.start_head()
        started.start_nodes(3, gpus=2)
        yield started
