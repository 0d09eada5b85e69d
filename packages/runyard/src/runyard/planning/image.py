"""Which container image a definition chose, if any."""

import re
from collections.abc import Mapping
from typing import Any

from runyard.errors import InvalidArgument
from runyard.model.files import FileEntry
from runyard.model.images import DEFAULT_PLATFORM, ImageSpec
from runyard.model.names import check_relative_path

LARGEST_DOCKERFILE_BYTES = 1024 * 1024
DOCKER_HUB = "docker.io"
HUB_ADDRESSES = frozenset({"", DOCKER_HUB, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
# Images that the original made its environments on. Here a virtual environment takes their place.
ORIGINALS_OWN = "mcr.microsoft.com/azureml/"
DEFAULT_DOCKERFILE = "Dockerfile"

FROM = re.compile(
    r"^[^\S\n]*+FROM\s++(?:--\S++\s++)*(?P<base>\S++)(?:\s++AS\s++(?P<stage>\S++))?", re.IGNORECASE | re.MULTILINE
)
"""The line of a Dockerfile that begins a stage."""
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


def image_of(environment: Mapping[str, Any]) -> ImageSpec | None:
    """The image that the user chose; None for none, and for one of the original's own. InvalidArgument names what of
    it no container engine would take."""
    docker = mapping_in(environment, "docker")
    address = registry_address(mapping_in(docker, "baseImageRegistry").get("address"))
    dockerfile, context = _dockerfile(docker)
    interpreter = _interpreter(mapping_in(environment, "python"))
    if dockerfile:
        registry = address or DOCKER_HUB
        return ImageSpec(
            dockerfile=dockerfile,
            context=context,
            registry=registry,
            platform=_platform(docker),
            interpreter=interpreter,
        )
    base = str(docker.get("baseImage") or "").strip()
    if not base or is_originals_own(base, address):
        return None
    reference = _checked_reference(base, address)
    return ImageSpec(
        base=reference, registry=registry_of(reference), platform=_platform(docker), interpreter=interpreter
    )


def wants_image(definition: Mapping[str, Any]) -> bool:
    """Whether an image that was chosen is used: on every cluster, on this machine where docker is asked for, and where
    nothing but the environment is built."""
    environment = mapping_in(definition, "environment")
    on_cluster = str(definition.get("target") or "local") != "local"
    asked = mapping_in(environment, "docker").get("enabled") or mapping_in(definition, "docker").get("useDocker")
    return bool(on_cluster or asked or is_build(definition))


def is_build(definition: Mapping[str, Any]) -> bool:
    """Whether the run builds its environment and does nothing else."""
    return bool(mapping_in(definition, "runyard").get("build"))


def is_forced_build(definition: Mapping[str, Any]) -> bool:
    """Whether it builds anew what is in the cache."""
    return bool(mapping_in(mapping_in(definition, "runyard"), "build").get("force"))


def registries_of(image: ImageSpec) -> set[str]:
    """The registries that building it may ask."""
    named = {registry_of(found["base"]) for found in FROM.finditer(image.dockerfile)}
    return {image.registry, *named}


def is_originals_own(base: str, address: str) -> bool:
    return f"{address}/{base}".startswith(ORIGINALS_OWN) or base.startswith(ORIGINALS_OWN)


def registry_of(reference: str) -> str:
    """The address of the registry that a reference names, Docker Hub's where it names none."""
    first, slash, _ = reference.partition("/")
    is_address = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return registry_address(first) or DOCKER_HUB if is_address and _ADDRESS.fullmatch(first) else DOCKER_HUB


def registry_address(given: Any) -> str:
    """HOST or HOST:PORT of what a user wrote, without a scheme; "" for Docker Hub. InvalidArgument where it is none."""
    text = str(given or "").strip()
    bare = re.sub(r"^https?://", "", text).rstrip("/").removesuffix("/v1").removesuffix("/v2").lower()
    if bare in HUB_ADDRESSES:
        return ""
    if len(bare) > 255 or not _ADDRESS.fullmatch(bare):
        raise InvalidArgument(
            f"The registry's address is {shown(text)}, which is no HOST or HOST:PORT.",
            hint="Give the address of the ContainerRegistry as in 'registry.example:5000'.",
        )
    return bare


def mapping_in(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise InvalidArgument(f"{name} must be an object, got {shown(value)}.", hint="Send it as the SDK makes it.")
    return value or {}


def context_files(docker: Mapping[str, Any]) -> tuple[FileEntry, ...]:
    """The files of the build context, each path within it."""
    rows = mapping_in(docker, "buildContext").get("files") or ()
    try:
        entries = [FileEntry(str(path), str(sha256), int(size), int(mode)) for path, sha256, size, mode in rows]
    except (TypeError, ValueError):
        raise InvalidArgument("files of the build context must be a list of [path, sha256, size, mode].") from None
    for entry in entries:
        check_relative_path(entry.path, "the build context's path")
    return tuple(entries)


def context_dockerfile(context: Mapping[str, Any]) -> str:
    """The path of its Dockerfile in the context."""
    return check_relative_path(str(context.get("dockerfilePath") or DEFAULT_DOCKERFILE), "dockerfile_path")


def check_dockerfile(text: str) -> str:
    """InvalidArgument for what cannot be a Dockerfile, named so."""
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


def shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _dockerfile(docker: Mapping[str, Any]) -> tuple[str, tuple[FileEntry, ...]]:
    context = mapping_in(docker, "buildContext")
    if context:
        if str(context.get("locationType") or "").lower() == "git":
            raise InvalidArgument(
                "build_context is a Git address, which Runyard does not fetch.",
                hint="Clone it and use DockerBuildContext.from_local_directory.",
            )
        text = str(context.get("dockerfile") or "")
        if not text:
            raise InvalidArgument(
                f"build_context has no file {shown(context.get('dockerfilePath') or DEFAULT_DOCKERFILE)}.",
                hint="Make it with DockerBuildContext.from_local_directory, and check dockerfile_path.",
            )
        return check_dockerfile(text), context_files(docker)
    text = str(docker.get("baseDockerfile") or "")
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


def _platform(docker: Mapping[str, Any]) -> str:
    given = mapping_in(docker, "platform")
    architecture = str(given.get("architecture") or "amd64").lower()
    platform = f"{str(given.get('os') or 'linux').lower()}/{_ARCHITECTURES.get(architecture, architecture)}"
    if not _PLATFORM.fullmatch(platform):
        raise InvalidArgument(f"platform is {shown(platform)}.", hint=f"Leave it out for {DEFAULT_PLATFORM}.")
    return platform


def _interpreter(python: Mapping[str, Any]) -> str:
    """Of an image that is used as it is: what the user says starts Python in it."""
    if not python.get("userManagedDependencies"):
        return ""
    path = str(python.get("interpreterPath") or "").strip() or "python"
    if not path.isprintable() or len(path) > 1024:
        raise InvalidArgument(f"interpreter_path is {shown(path)}.", hint="Give a path in the image, or 'python'.")
    return path
