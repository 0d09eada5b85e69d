"""How the containers of a run are made: what its definition says beside the image."""

import re
from dataclasses import replace

from runyard.core.definitions.fields import shown
from runyard.core.definitions.run import RunDefinition
from runyard.errors import InvalidArgument
from runyard.model.images import ContainerWish
from runyard.model.plan import EnvironmentSpec
from runyard.planning.docker_arguments import Asked, parsed_arguments, size_in_bytes
from runyard.planning.variables import without_places

_LOCAL_FILE = re.compile(r"file:|(?:^|[\s=@])[/~]", re.IGNORECASE)


def container_wish(definition: RunDefinition) -> ContainerWish:
    """InvalidArgument names the argument that cannot be followed."""
    return _asked(definition).wish


def check_host_access(definition: RunDefinition, *, is_allowed: bool) -> None:
    """Raises InvalidArgument for arguments that reach for the machine, where its operator does not allow that."""
    reaching = dict.fromkeys(_asked(definition).host_access)
    if reaching and not is_allowed:
        raise InvalidArgument(
            f"docker.arguments has {', '.join(reaching)}, which reaches out of the container to its machine; this "
            "service, which others reach too, does not allow that.",
            hint="Leave it out, or ask the operator to set RUNYARD_CONTAINER_HOST_ACCESS=1.",
        )


def check_local_files(spec: EnvironmentSpec) -> None:
    """Raises InvalidArgument for packages that are files of the machine: a build reads them as its engine's user, who
    may read more than who asks for it."""
    for line in (*spec.requirements, *(one for choice in spec.choices for one in choice), *spec.locked.splitlines()):
        if _LOCAL_FILE.search(line):
            raise InvalidArgument(
                f"pip_packages holds {shown(line)}, which names files of the machine; this service, which others reach "
                "too, makes no image from those.",
                hint="Put the package on an index, name it by an https address, or ask the operator to set "
                "RUNYARD_CONTAINER_HOST_ACCESS=1.",
            )


def without_reach(definition: RunDefinition) -> RunDefinition:
    """The definition without the submitter's word on where the machine keeps its files: caches, certificates and wheel
    folders are seen by the containers of builds, and an engine mounts what it is told to."""
    submitter = definition.runyard.submitter
    return definition.with_runyard(submitter={**submitter.raw, "variables": without_places(submitter.variables)})


def _asked(definition: RunDefinition) -> Asked:
    """The run's own section (DockerConfiguration) comes after the environment's, and its arguments after those."""
    of_environment, of_run = definition.environment.docker, definition.docker
    asked = parsed_arguments([*of_environment.arguments, *of_run.arguments])
    shm_size = of_environment.shm_size or of_run.shm_size
    if of_run.use_docker and of_run.shm_size:
        shm_size = of_run.shm_size
    if shm_size is None or asked.wish.shm_bytes is not None:
        return asked
    return replace(asked, wish=replace(asked.wish, shm_bytes=size_in_bytes(shm_size, "shm_size")))
