"""Error messages of engines and registries, translated to causes that a user can act on."""

import re
from collections.abc import Mapping

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.url_secrets import redacted

QUOTED = 2000
"""Characters of an engine's message that an error quotes."""
_RUNTIME_WORDS = re.compile(
    r'exec:? \\?".{0,500}?(no such file or directory|not found in \$PATH|permission denied|exec format error)|'
    r"exec \S{1,500}?: exec format error|unable to find user .{0,500}?(?=:|$)|"
    r"error mounting .{0,500}?(?=: unknown|$)"
)
_PATTERNS: Mapping[FailureCause, tuple[str, ...]] = {
    FailureCause.DISK_FULL: ("no space left on device", "disk quota exceeded"),
    FailureCause.ARCHITECTURE: (
        "no matching manifest for",
        "does not match the specified platform",
        "exec format error",
        r"no image found in (manifest list|image index)",
        r"image operating system .{0,200}? cannot be used",
    ),
    FailureCause.CERTIFICATE: ("x509:", "tls: ", "server gave HTTP response to HTTPS client"),
    FailureCause.WRONG_CREDENTIALS: (
        "unauthorized",
        "authentication required",
        "no basic auth credentials",
        r"(invalid|incorrect) username(/| or )password",
        r"StatusCode: 40[13]\b",
        r"HTTP 40[13] response",
    ),
    FailureCause.IMAGE_NOT_FOUND: (
        "manifest unknown",
        "name unknown",
        "pull access denied",
        "requested access to the resource is denied",
        "no such image",
        "image not known",
        "invalid reference format",
        r"repository .{0,500}?not (found|known)",
        r"StatusCode: 404\b",
        "HTTP 404 response",
    ),
    FailureCause.NETWORK: (
        "no such host",
        "server misbehaving",
        "connection refused",
        "connection reset",
        "network is unreachable",
        "no route to host",
        r"i/o timeout|handshake timeout|timeout awaiting|Client\.Timeout|deadline exceeded",
        r"\bEOF\b",
    ),
    FailureCause.REGISTRY_FAILED: (
        "unexpected HTTP status",
        "toomanyrequests",
        r"StatusCode: \d{3}\b",
        "error parsing HTTP",
    ),
}
"""The first cause that matches counts."""
_WORDS = {cause: re.compile("|".join(patterns), re.IGNORECASE) for cause, patterns in _PATTERNS.items()}


class EngineRefused(EnvironmentFailed):
    """The engine refused a request; `http_status` is the HTTP status of its answer."""

    def __init__(self, request: str, status: int, message: str, hint: str = "") -> None:
        cause = cause_of(message, FailureCause.ENGINE_FAILED)
        super().__init__(
            f"The container engine refused {request}: {sentence(message)}",
            hint=hint or next_step(cause),
            cause=cause,
            said=quoted(message),
        )
        self.http_status, self.said = status, quoted(message)


class ImageInUse(EnvironmentFailed):
    """The image cannot be removed: a container or another image uses it."""


def cause_of(message: str, otherwise: FailureCause) -> FailureCause:
    return next((cause for cause, words in _WORDS.items() if words.search(message)), otherwise)


def quoted(message: str) -> str:
    return redacted(message).strip()[-QUOTED:]


def sentence(message: str) -> str:
    """The message with a full stop, since a hint follows it."""
    words = quoted(message)
    return words if words.endswith((".", "!", "?")) else f"{words}."


def engine_refused(request: str, status: int, message: str) -> EngineRefused:
    return EngineRefused(request, status, message or f"HTTP status {status}")


def engine_unreachable(address: str, request: str, error: Exception) -> EnvironmentFailed:
    """The error for a missing or incomplete answer."""
    message = str(error) or type(error).__name__
    return EnvironmentFailed(
        f"The container engine at {address} does not answer ({request}): {sentence(message)}",
        hint=next_step(FailureCause.ENGINE_FAILED),
        cause=FailureCause.ENGINE_FAILED,
        said=message,
    )


def start_failed(refusal: EngineRefused) -> EngineRefused:
    """The error for a container that did not start, shortened to the part about the user's command or image."""
    found = _RUNTIME_WORDS.search(refusal.said)
    message = found[0].replace('\\"', '"') if found else refusal.said
    hint = "Look at the command, the user and the folders that the run's container is given." if found else ""
    return EngineRefused("to start the container", refusal.http_status, message, hint)


def pull_failed(reference: str, message: str, *, with_credentials: bool) -> EnvironmentFailed:
    cause = cause_of(message, FailureCause.REGISTRY_FAILED)
    problem = {
        FailureCause.WRONG_CREDENTIALS: f"The registry refuses the {'' if with_credentials else 'missing '}user name "
        "and "
        f"password for image {reference!r}.",
        FailureCause.IMAGE_NOT_FOUND: f"There is no image {reference!r}"
        + (", or the user given may not read it." if with_credentials else ", or it is private."),
        FailureCause.NETWORK: f"The registry of image {reference!r} could not be reached.",
        FailureCause.CERTIFICATE: f"The engine does not trust the certificate of the registry of image {reference!r}.",
        FailureCause.ARCHITECTURE: f"Image {reference!r} is not made for this machine.",
        FailureCause.DISK_FULL: f"The disk filled while image {reference!r} was pulled.",
    }.get(cause, f"The registry failed while image {reference!r} was pulled.")
    return EnvironmentFailed(
        f"{problem} The container engine says: {sentence(message)}",
        hint=next_step(cause),
        cause=cause,
        said=quoted(message),
    )


def build_failed(message: str) -> EnvironmentFailed:
    """The error for a failed build; `message` is the engine's error of the step that failed."""
    cause = cause_of(message, FailureCause.DOCKERFILE_FAILED)
    if re.search(r"returned a non-zero code|while running runtime: exit status|COPY failed|ADD failed", message):
        cause = FailureCause.DISK_FULL if cause is FailureCause.DISK_FULL else FailureCause.DOCKERFILE_FAILED
    needs_buildkit = _NEEDS_BUILDKIT.search(message) is not None
    if needs_buildkit:
        cause = FailureCause.DOCKERFILE_FAILED
    return EnvironmentFailed(
        f"The Dockerfile could not be built. The container engine says: {sentence(message)}",
        hint=_WITHOUT_BUILDKIT if needs_buildkit else next_step(cause),
        cause=cause,
        said=quoted(message),
    )


def next_step(cause: FailureCause) -> str:
    return _NEXT.get(cause, "The build log has the engine's own words; correct that and submit again.")


_NEEDS_BUILDKIT = re.compile(
    r"requires BuildKit|unknown flag: (mount|chmod|link|network|security)|heredoc|"
    r"unknown instruction: (\S{0,200}?EOF|<<)",
    re.IGNORECASE,
)
_WITHOUT_BUILDKIT = (
    "Images are built by the engine's own builder, without BuildKit: write the step without RUN --mount, COPY --chmod "
    "or --link and <<EOF (several commands join by `&& \\`), or build and push the image yourself and name it as "
    "base_image."
)
_NEXT = {
    FailureCause.WRONG_CREDENTIALS: "Give the registry's username and password: image_registry_details of the "
    "estimator, or "
    "environment.docker.base_image_registry; then submit again. Of a workspace the login counts that was given last "
    "for the registry, also where it came with another run.",
    FailureCause.IMAGE_NOT_FOUND: "Look at the image's name, its tag and the registry's address; then submit again.",
    FailureCause.NETWORK: "Look at the registry's address and at the network and proxy settings of the "
    "container engine; then submit again.",
    FailureCause.CERTIFICATE: "Give the engine the registry's certificate (/etc/docker/certs.d/ADDRESS/ca.crt, or "
    "/etc/containers/certs.d for podman); then submit again.",
    FailureCause.ARCHITECTURE: "Choose an image for this machine's processor, or one that is made for several.",
    FailureCause.DISK_FULL: "Free space where the container engine keeps its images (`runyard environments prune`, "
    "`docker system df`); then submit again.",
    FailureCause.REGISTRY_FAILED: "Try again later, or ask whoever runs the registry.",
    FailureCause.DOCKERFILE_FAILED: "Correct that step of the Dockerfile (the build log has its output), "
    "then submit again.",
    FailureCause.ENGINE_FAILED: "See that the engine runs (`docker version`, `podman info`) and look into its "
    "log; then submit again.",
}
