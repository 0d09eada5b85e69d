"""The container image that a definition chooses, and the registries that it needs."""

import re

from runyard.core.definitions.environment import DockerSection, EnvironmentDefinition, PythonSection
from runyard.core.definitions.fields import shown
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.records.files import FileEntry
from runyard.core.records.launch_plan import DEFAULT_PLATFORM, ImageSpec

LARGEST_DOCKERFILE_BYTES = 1024 * 1024
DOCKER_HUB = "docker.io"
HUB_ADDRESSES = frozenset({"", DOCKER_HUB, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
# Default base images of Azure ML; we use a virtual environment instead.
AZUREML_IMAGES = "mcr.microsoft.com/azureml/"

FROM = re.compile(
    r"^[^\S\n]*+FROM\s++(?:--\S++\s++)*(?P<base>\S++)(?:\s++AS\s++(?P<stage>\S++))?", re.IGNORECASE | re.MULTILINE
)
"""FROM line of a Dockerfile."""
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{1,62}+(?<!-))?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]{{2,39}}\]"
_ADDRESS = re.compile(rf"(?:{_HOST})(?::[0-9]{{1,5}})?")
_PART = r"[a-z0-9]++(?:(?:\.|_{1,2}|-++)[a-z0-9]++)*"
_REFERENCE = re.compile(
    rf"(?P<name>(?:(?:{_HOST})(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*)"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[a-z0-9]+:[0-9a-f]{32,128})?"
)
_LONGEST_REFERENCE = 512
_PLATFORM = re.compile(r"[a-z0-9]{1,20}/[a-z0-9]{1,20}(/[a-z0-9]{1,20})?")
_ARCHITECTURES = {"x86_64": "amd64", "x64": "amd64", "aarch64": "arm64"}


def image_of(environment: EnvironmentDefinition) -> ImageSpec | None:
    """The image that the user chose; None for none, and for a default image of Azure ML. Raises InvalidArgument."""
    docker = environment.docker
    address = registry_address(docker.registry_address)
    dockerfile, context = _dockerfile(docker)
    interpreter = _interpreter(environment.python)
    if dockerfile:
        registry = address or DOCKER_HUB
        return ImageSpec(
            dockerfile=dockerfile,
            context=context,
            registry=registry,
            platform=_platform(docker),
            interpreter=interpreter,
        )
    base = docker.base_image
    if not base or is_azureml_image(base, address):
        return None
    reference = _checked_reference(base, address)
    return ImageSpec(
        base=reference, registry=registry_of(reference), platform=_platform(docker), interpreter=interpreter
    )


def wants_image(definition: RunDefinition) -> bool:
    """Whether the run uses the chosen image: on every cluster, on this machine if docker is enabled, and in builds of
    an environment."""
    asked = definition.environment.docker.enabled or definition.docker.use_docker
    return definition.target != "local" or asked or definition.runyard.is_build


def registries_of(image: ImageSpec) -> set[str]:
    """Registries that a build of the image may need."""
    named = {registry_of(found["base"]) for found in FROM.finditer(image.dockerfile)}
    return {image.registry, *named}


def is_azureml_image(base: str, address: str) -> bool:
    return f"{address}/{base}".startswith(AZUREML_IMAGES) or base.startswith(AZUREML_IMAGES)


def registry_of(reference: str) -> str:
    """Registry of an image reference; Docker Hub if it names none."""
    first, slash, _ = reference.partition("/")
    is_address = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return registry_address(first) or DOCKER_HUB if is_address and _ADDRESS.fullmatch(first) else DOCKER_HUB


def registry_address(given: str) -> str:
    """HOST or HOST:PORT of a registry address; "" for Docker Hub. Raises InvalidArgument."""
    text = given.strip()
    bare = re.sub(r"^https?://", "", text).rstrip("/").removesuffix("/v1").removesuffix("/v2").lower()
    if bare in HUB_ADDRESSES:
        return ""
    if len(bare) > 255 or not _ADDRESS.fullmatch(bare):
        raise InvalidArgument(
            f"The registry's address is {shown(text)}, which is no HOST or HOST:PORT.",
            hint="Give the address of the ContainerRegistry as in 'registry.example:5000'.",
        )
    return bare


def check_dockerfile(text: str) -> str:
    """The text, if it can be a Dockerfile. Raises InvalidArgument."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > LARGEST_DOCKERFILE_BYTES:
        raise InvalidArgument(
            f"The Dockerfile has {size} bytes; at most {LARGEST_DOCKERFILE_BYTES} are taken.",
            hint="Put what it writes into files of a build context, and COPY them.",
        )
    if "\0" in text:
        raise InvalidArgument("base_dockerfile holds a NUL.", hint="Give the text of a Dockerfile.")
    if not FROM.search(text):
        raise InvalidArgument(
            f"base_dockerfile has no FROM: {shown(text)}.",
            hint="Give the text of a Dockerfile, or the path of one that is there.",
        )
    return text


def _dockerfile(docker: DockerSection) -> tuple[str, tuple[FileEntry, ...]]:
    context = docker.build_context
    if context is not None:
        if context.location_type.lower() == "git":
            raise InvalidArgument(
                "build_context is a Git address, which Runyard does not fetch.",
                hint="Clone it and use DockerBuildContext.from_local_directory.",
            )
        if not context.dockerfile:
            raise InvalidArgument(
                f"build_context has no file {shown(context.dockerfile_path)}.",
                hint="Make it with DockerBuildContext.from_local_directory, and check dockerfile_path.",
            )
        return check_dockerfile(context.dockerfile), context.files
    text = docker.base_dockerfile
    return (check_dockerfile(text) if text.strip() else ""), ()


def _checked_reference(base: str, address: str) -> str:
    bare = re.sub(r"^https?://", "", base)
    has_address = address and bare.startswith(f"{address}/")
    reference = f"{address}/{bare}" if address and not has_address else bare
    if len(reference) > _LONGEST_REFERENCE or not _REFERENCE.fullmatch(reference):
        raise InvalidArgument(
            f"base_image is {shown(base)}, which is no name of an image.",
            hint="Write it like 'ubuntu:22.04' or 'registry.example:5000/team/image:tag', in small letters.",
        )
    return reference


def _platform(docker: DockerSection) -> str:
    architecture = docker.platform_architecture.lower()
    platform = f"{docker.platform_os.lower()}/{_ARCHITECTURES.get(architecture, architecture)}"
    if not _PLATFORM.fullmatch(platform):
        raise InvalidArgument(f"platform is {shown(platform)}.", hint=f"Leave it out for {DEFAULT_PLATFORM}.")
    return platform


def _interpreter(python: PythonSection) -> str:
    """Interpreter path in an image with user-managed dependencies; else ''."""
    if not python.user_managed:
        return ""
    path = python.interpreter_path.strip() or "python"
    if not path.isprintable() or len(path) > 1024:
        raise InvalidArgument(f"interpreter_path is {shown(path)}.", hint="Give a path in the image, or 'python'.")
    return path
