"""A Ray cluster of this machine, warm, with a compute target on it; and what Ray alone does there."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.engines.ray_cluster import RayCluster, ray_cluster

from azureml.core.compute import ComputeTarget, RayCompute
from bench.home import Home, open_home

NAME = "ray"


class BareRay:
    """A driver in a process of its own: see bench/ray_floor.py."""

    def __init__(self, cluster: RayCluster) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.ray_floor", cluster.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=cluster.environment({}),
            text=True,
        )

    def ask(self, **request: object) -> float:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait(timeout=60)


def has_ray(bench: str) -> bool:
    """Says it on stderr where it has not."""
    if importlib.util.find_spec("ray") is not None:
        return True
    print(f"{bench}: ray is not installed (pip install 'runyard[ray]'); nothing was measured.", file=sys.stderr)
    return False


@contextmanager
def warm_cluster(nodes: int, cpus: int) -> Iterator[tuple[Home, BareRay]]:
    """So many nodes, each of which one run takes whole."""
    with ray_cluster() as cluster:
        cluster.start_head()
        cluster.start_nodes(nodes, cpus=cpus)
        os.environ.update(cluster.variables)
        bare = BareRay(cluster)
        try:
            with open_home() as home:
                shape = RayCompute.attach_configuration(address=cluster.address, cpu=cpus, max_nodes=nodes)
                ComputeTarget.attach(home.workspace, NAME, shape).wait_for_completion()
                yield home, bare
        finally:
            bare.close()
            for name in cluster.variables:
                del os.environ[name]
