"""`python -m bench.ray_floor ADDRESS`: starts processes by Ray alone; one line of JSON asks, one number answers.

{"ranks", "command"}: milliseconds until that many processes, shared evenly by one warm actor a node, have each printed
the time. {"tasks", "command"}: seconds until so many tasks have each run the process to its end.
"""

import json
import subprocess
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
class Starter:
    def start(self, command: list[str], count: int) -> list[str]:
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        return [process.communicate()[0] for process in started]


@ray.remote(num_cpus=1)
def run_one(command: list[str]) -> None:
    subprocess.run(command, check=True)


def starters() -> list[ray.actor.ActorHandle]:
    """One a node that has room for runs."""
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    pinned = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    return [Starter.options(scheduling_strategy=strategy).remote() for strategy in pinned]


def first_lines(actors: list[ray.actor.ActorHandle], command: list[str], ranks: int) -> float:
    begun = time.time()
    printed = ray.get([actor.start.remote(command, ranks // len(actors)) for actor in actors])
    firsts = [float(output.split()[1]) for outputs in printed for output in outputs]
    return (max(firsts) - begun) * 1000


def wall_time(tasks: int, command: list[str]) -> float:
    begun = time.perf_counter()
    ray.get([run_one.remote(command) for _ in range(tasks)])
    return time.perf_counter() - begun


def main(address: str) -> None:
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    actors = starters()
    for line in sys.stdin:
        asked = json.loads(line)
        if "ranks" in asked:
            answer = first_lines(actors, asked["command"], asked["ranks"])
        else:
            answer = wall_time(asked["tasks"], asked["command"])
        print(answer, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
