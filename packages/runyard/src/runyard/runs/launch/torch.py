"""torch.distributed: equal processes that meet at the address and port of rank 0."""

from runyard.core.definitions.run import RunDefinition
from runyard.core.records.launch_plan import NodePlan, PortRequest, ProcessSpec
from runyard.runs.launch.distribution import Distribution, distribution_of
from runyard.runs.launch.layout import DRIVER_LOG, AttemptResources, command_of
from runyard.runs.launch.variables import gpu_variables, loopback_variables, no_proxy_variables

MASTER_PORT = 6105


def torch_layout(definition: RunDefinition, resources: AttemptResources) -> tuple[NodePlan, ...]:
    """Node plans with process_count processes; without it, one for each GPU of a node, and one on a node without GPUs.

    A `command` without process_count is started once for each node: it is a launcher itself, such as torchrun.
    """
    counts = _counts(distribution_of(definition), definition, resources)
    return tuple(_node(definition, resources, counts, node) for node in range(len(counts)))


def _counts(distribution: Distribution, definition: RunDefinition, resources: AttemptResources) -> list[int]:
    nodes = range(distribution.node_count)
    if distribution.process_count is not None:
        each, rest = divmod(distribution.process_count, distribution.node_count)
        return [each + (node < rest) for node in nodes]
    if definition.command:
        return [1 for _ in nodes]
    return [max(1, len(resources.gpus_of(node))) for node in nodes]


def _node(definition: RunDefinition, resources: AttemptResources, counts: list[int], node: int) -> NodePlan:
    gpus = resources.gpus_of(node)
    shared = {
        **definition.environment.variables,
        **no_proxy_variables(definition, resources.addresses),
        **gpu_variables(gpus),
        **loopback_variables(resources.addresses),
        **_world(resources, counts, node),
    }
    first, world = sum(counts[:node]), sum(counts)
    processes = tuple(
        ProcessSpec(
            rank=first + local,
            command=command_of(definition),
            env={
                **shared,
                "RANK": str(first + local),
                "LOCAL_RANK": str(local),
                "AZ_BATCHAI_TASK_INDEX": str(first + local),
            },
            log=DRIVER_LOG if world == 1 else f"azureml-logs/70_driver_log_{first + local}.txt",
        )
        for local in range(counts[node])
    )
    ports = (PortRequest("master", MASTER_PORT),) if node == 0 else ()
    return NodePlan(resources.addresses[node], processes, gpus, resources.name_of(node), ports)


def _world(resources: AttemptResources, counts: list[int], node: int) -> dict[str, str]:
    master = resources.addresses[0]
    return {
        "MASTER_ADDR": master,
        "MASTER_PORT": "<port:0:master>",
        "WORLD_SIZE": str(sum(counts)),
        "NODE_RANK": str(node),
        "LOCAL_WORLD_SIZE": str(counts[node]),
        # In Azure ML the address of a shared file. Our nodes share none, and torch takes this too.
        "AZ_BATCHAI_PYTORCH_INIT_METHOD": f"tcp://{master}:<port:0:master>",
    }
