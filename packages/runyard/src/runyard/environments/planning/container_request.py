"""Container options of a run definition, and checks of what they may reach on the machine."""

import re
from dataclasses import replace

from runyard.core.definitions.fields import shown
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import ContainerRequest, EnvironmentSpec
from runyard.core.submitter_variables import without_machine_paths
from runyard.environments.planning.docker_arguments import DockerArguments, parse_docker_arguments, size_in_bytes

_LOCAL_FILE = re.compile(r"file:|(?:^|[\s=@])[/~]", re.IGNORECASE)


def container_request(definition: RunDefinition) -> ContainerRequest:
    """Container options of the run. Raises InvalidArgument for a bad argument."""
    return _parsed(definition).request


def check_host_access(definition: RunDefinition, *, is_allowed: bool) -> None:
    """Raise InvalidArgument for arguments that give access to the host, unless the operator allows it."""
    options = dict.fromkeys(_parsed(definition).host_access)
    if options and not is_allowed:
        raise InvalidArgument(
            f"docker.arguments has {', '.join(options)}, which reaches out of the container to its machine; this "
            "service, which others reach too, does not allow that.",
            hint="Leave it out, or ask the operator to set RUNYARD_CONTAINER_HOST_ACCESS=1.",
        )


def check_local_files(spec: EnvironmentSpec) -> None:
    """Raise InvalidArgument for packages that are local files: the build runs as the engine's user, who may read more
    than the caller."""
    for line in (*spec.requirements, *(one for choice in spec.choices for one in choice), *spec.locked.splitlines()):
        if _LOCAL_FILE.search(line):
            raise InvalidArgument(
                f"pip_packages holds {shown(line)}, which names files of the machine; this service, which others reach "
                "too, makes no image from those.",
                hint="Put the package on an index, name it by an https address, or ask the operator to set "
                "RUNYARD_CONTAINER_HOST_ACCESS=1.",
            )


def without_host_paths(definition: RunDefinition) -> RunDefinition:
    """The definition without the submitter's variables that name paths: build containers mount caches, certificates and
    wheel folders from there."""
    submitter = definition.runyard.submitter
    return definition.with_runyard(submitter={**submitter.raw, "variables": without_machine_paths(submitter.variables)})


def _parsed(definition: RunDefinition) -> DockerArguments:
    """Arguments of the environment, then of the run (DockerConfiguration), which win."""
    of_environment, of_run = definition.environment.docker, definition.docker
    parsed = parse_docker_arguments([*of_environment.arguments, *of_run.arguments])
    shm_size = of_environment.shm_size or of_run.shm_size
    if of_run.use_docker and of_run.shm_size:
        shm_size = of_run.shm_size
    if shm_size is None or parsed.request.shm_bytes is not None:
        return parsed
    return replace(parsed, request=replace(parsed.request, shm_bytes=size_in_bytes(shm_size, "shm_size")))
