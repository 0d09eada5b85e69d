"""torch.distributed: equal processes that find one another at the address and port of rank 0."""

from runyard.core.definitions.run import RunDefinition
from runyard.model.plan import NodePlan, PortWish, ProcessSpec
from runyard.planning.distribution import Distribution, distribution_of
from runyard.planning.launch_single import DRIVER_LOG, command_of
from runyard.planning.resources import Resources
from runyard.planning.variables import direct_variables, gpu_variables, loopback_variables

MASTER_PORT = 6105


def torch_layout(definition: RunDefinition, found: Resources) -> tuple[NodePlan, ...]:
    """As many processes as process_count says; else one for each GPU of a node, and one on a node without any.

    A `command` without process_count is started once a node: it is a launcher of its own, such as torchrun.
    """
    counts = _counts(distribution_of(definition), definition, found)
    return tuple(_node(definition, found, counts, node) for node in range(len(counts)))


def _counts(asked: Distribution, definition: RunDefinition, found: Resources) -> list[int]:
    nodes = range(asked.node_count)
    if asked.process_count is not None:
        each, rest = divmod(asked.process_count, asked.node_count)
        return [each + (node < rest) for node in nodes]
    if definition.command:
        return [1 for _ in nodes]
    return [max(1, len(found.gpus_of(node))) for node in nodes]


def _node(definition: RunDefinition, found: Resources, counts: list[int], node: int) -> NodePlan:
    gpus = found.gpus_of(node)
    shared = {
        **definition.environment.variables,
        **direct_variables(definition, found.addresses),
        **gpu_variables(gpus),
        **loopback_variables(found.addresses),
        **_world(found, counts, node),
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
    ports = (PortWish("master", MASTER_PORT),) if node == 0 else ()
    return NodePlan(found.addresses[node], processes, gpus, found.name_of(node), ports)


def _world(found: Resources, counts: list[int], node: int) -> dict[str, str]:
    master = found.addresses[0]
    return {
        "MASTER_ADDR": master,
        "MASTER_PORT": "<port:0:master>",
        "WORLD_SIZE": str(sum(counts)),
        "NODE_RANK": str(node),
        "LOCAL_WORLD_SIZE": str(counts[node]),
        # Once the address of a shared file; nodes share none here, and torch takes this one as well.
        "AZ_BATCHAI_PYTORCH_INIT_METHOD": f"tcp://{master}:<port:0:master>",
    }
