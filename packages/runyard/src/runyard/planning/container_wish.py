"""How the containers of a run are made: what its definition says beside the image."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runyard.errors import InvalidArgument
from runyard.model.images import ContainerWish
from runyard.model.plan import EnvironmentSpec
from runyard.planning.docker_arguments import Asked, parsed_arguments, size_in_bytes
from runyard.planning.image import mapping_in, shown
from runyard.planning.variables import without_places

_LOCAL_FILE = re.compile(r"file:|(?:^|[\s=@])[/~]", re.IGNORECASE)


def container_wish(definition: Mapping[str, Any]) -> ContainerWish:
    """InvalidArgument names the argument that cannot be followed."""
    return _asked(definition).wish


def check_host_access(definition: Mapping[str, Any], *, is_allowed: bool) -> None:
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


def without_reach(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The definition without the submitter's word on where the machine keeps its files: caches, certificates and wheel
    folders are seen by the containers of builds, and an engine mounts what it is told to."""
    ours = mapping_in(definition, "runyard")
    submitter = mapping_in(ours, "submitter")
    variables = {str(name): str(value) for name, value in mapping_in(submitter, "variables").items()}
    submitter = {**submitter, "variables": without_places(variables)}
    return {**definition, "runyard": {**ours, "submitter": submitter}}


def _asked(definition: Mapping[str, Any]) -> Asked:
    """The run's own section (DockerConfiguration) comes after the environment's, and its arguments after those."""
    of_environment = mapping_in(mapping_in(definition, "environment"), "docker")
    of_run = mapping_in(definition, "docker")
    given = [*_listed(of_environment.get("arguments")), *_listed(of_run.get("arguments"))]
    asked = parsed_arguments(given)
    shm_size = of_environment.get("shmSize") or of_run.get("shmSize")
    if of_run.get("useDocker") and of_run.get("shmSize"):
        shm_size = of_run["shmSize"]
    if shm_size is None or asked.wish.shm_bytes is not None:
        return asked
    return replace(asked, wish=replace(asked.wish, shm_bytes=size_in_bytes(shm_size, "shm_size")))


def _listed(arguments: Any) -> list[Any]:
    if arguments is None or isinstance(arguments, str):
        return [arguments] if arguments else []
    if not isinstance(arguments, list | tuple):
        raise InvalidArgument(f"docker.arguments must be a list of strings, got {ascii(arguments)[:80]}.")
    return list(arguments)
