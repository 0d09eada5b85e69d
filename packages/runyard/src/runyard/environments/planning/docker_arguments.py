"""Parser for docker.arguments: options of `docker run` become a ContainerRequest."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runyard.core.definitions.fields import JsonValue, shown
from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import ContainerRequest, VolumeRequest

MOST_ARGUMENTS, LONGEST_ARGUMENT = 1000, 32 * 1024
LARGEST_BYTES = 1 << 50
LEAST_MEMORY_BYTES = 6 << 20
SHORT = {
    "-v": "--volume",
    "-e": "--env",
    "-m": "--memory",
    "-u": "--user",
    "-h": "--hostname",
    "-i": "--interactive",
    "-t": "--tty",
    "-it": "--tty",
    "-ti": "--tty",
}
SAME_AS = {"--net": "--network"}
IGNORED = frozenset({"--rm", "--interactive", "--tty", "--init"})
"""Accepted without effect: a run's container is removed and logged anyway."""
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,6}))?\s*([bkmgt]?)(?:i?b)?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_NETWORKS = frozenset({"host", "bridge", "none"})
_IPC = frozenset({"private", "shareable", "none", "host"})
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")
_CAPABILITY = re.compile(r"(CAP_)?[A-Z_]{2,40}")
_LIMIT = re.compile(r"([a-z]{1,20})=(-?[0-9]{1,18})(?::(-?[0-9]{1,18}))?")
_VARIABLE = re.compile(r"[^\s=\0-\x1f\x7f]{1,1000}")
_GPUS = re.compile(r'all|[1-9][0-9]{0,3}|"?device=[A-Za-z0-9,-]{1,1000}"?')
_SYSCTL = re.compile(r"([a-z0-9_.]{1,100})=(.{0,200})")


@dataclass(frozen=True)
class DockerArguments:
    """Parsed arguments; `host_access` lists those that give access to the host."""

    request: ContainerRequest = field(default_factory=ContainerRequest)
    host_access: tuple[str, ...] = ()


def parse_docker_arguments(given: Sequence[str]) -> DockerArguments:
    """Raises InvalidArgument for an unknown argument or a bad value."""
    words = _words(given)
    parsed = DockerArguments()
    while words:
        option, value = _next_option(words)
        parsed = _OPTIONS[option](parsed, option, value)
    _check_network(parsed.request)
    return parsed


def _check_network(request: ContainerRequest) -> None:
    of_network = [name for name, _ in request.sysctls if name.startswith("net.")]
    if of_network and request.network in ("", "host"):
        raise _bad(
            "--sysctl", of_network[0], "Add --network=bridge: by default the machine's own network is the run's."
        )


def size_in_bytes(given: JsonValue, argument: str) -> int:
    """Parse '2g', '512m', '1.5GB' or a number of bytes."""
    text = str(given).strip()
    found = _SIZE.fullmatch(text) if not isinstance(given, bool) else None
    if found is None:
        raise InvalidArgument(f"{argument} is {shown(given)}.", hint="Give a size such as '2g' or '512m'.")
    whole, part, unit = found.groups()
    size = int(float(f"{whole}.{part or 0}") * _UNITS[unit.lower()])
    if not 0 < size <= LARGEST_BYTES:
        raise InvalidArgument(f"{argument} is {shown(given)}: at least 1 byte, and not above 1024t.")
    return size


def _words(given: Sequence[str]) -> list[str]:
    if len(given) > MOST_ARGUMENTS or any(len(one) > LONGEST_ARGUMENT for one in given):
        raise InvalidArgument(
            f"docker.arguments has too much: at most {MOST_ARGUMENTS} entries of {LONGEST_ARGUMENT} characters."
        )
    return [word for one in given for word in _split(one)]


def _split(entry: str) -> list[str]:
    """Split '--shm-size 2g' into two words; an entry that is no option is one value."""
    if "\0" in entry:
        raise InvalidArgument(f"docker.arguments has {shown(entry)}: no program can be given a NUL.")
    if not entry.lstrip().startswith("-"):
        return [entry]
    try:
        return shlex.split(entry)
    except ValueError as error:
        raise InvalidArgument(f"docker.arguments has {shown(entry)}: {error}.", hint="Close the quotes.") from None


def _next_option(words: list[str]) -> tuple[str, str]:
    word = words.pop(0)
    name, equals, value = word.partition("=")
    if not word.startswith("--") and len(word) > 2 and word[:2] in ("-v", "-e", "-m", "-u", "-h"):
        name, equals, value = word[:2], "=", word[2:].removeprefix("=")
    name = SHORT.get(name, name)
    name = SAME_AS.get(name, name)
    if name in IGNORED or name == "--privileged":
        return name, value
    if name not in _OPTIONS:
        known = ", ".join(sorted(_OPTIONS.keys() - IGNORED))
        raise InvalidArgument(
            f"docker.arguments has {shown(word)}, which a run's container cannot have.", hint=f"Known: {known}."
        )
    if not equals:
        if not words:
            raise InvalidArgument(f"docker.arguments ends with {shown(word)}, which takes a value.")
        value = words.pop(0)
    return name, value


def _bad(option: str, value: str, hint: str) -> InvalidArgument:
    return InvalidArgument(f"docker.arguments has {option} with {shown(value)}.", hint=hint)


def _matched(pattern: re.Pattern[str], option: str, value: str, hint: str) -> re.Match[str]:
    found = pattern.fullmatch(value)
    if found is None:
        raise _bad(option, value, hint)
    return found


def _with_host_access(parsed: DockerArguments, option: str, **changes: Any) -> DockerArguments:
    return DockerArguments(replace(parsed.request, **changes), (*parsed.host_access, option))


def _with(parsed: DockerArguments, **changes: Any) -> DockerArguments:
    return replace(parsed, request=replace(parsed.request, **changes))


def _nothing(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    return parsed


def _volume(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    source, _, rest = value.partition(":")
    target, _, modes = rest.partition(":")
    words = set(filter(None, modes.split(",")))
    if words - {"ro", "rw", "z", "Z"}:
        raise _bad(option, value, "Write it as in '/data:/data:ro'.")
    return _mounted(parsed, option, value, source, target, "ro" in words)


def _mount(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    fields = dict(part.partition("=")[::2] for part in value.split(","))
    source = fields.get("source") or fields.get("src") or ""
    target = fields.get("target") or fields.get("dst") or fields.get("destination") or ""
    known = {"type", "source", "src", "target", "dst", "destination", "readonly", "ro"}
    if fields.get("type") != "bind" or fields.keys() - known:
        raise _bad(option, value, "Write it as in 'type=bind,source=/data,target=/data,readonly'.")
    is_read_only = any(name in fields and fields[name] in ("", "true", "1") for name in ("readonly", "ro"))
    return _mounted(parsed, option, value, source, target, is_read_only)


def _mounted(
    parsed: DockerArguments, option: str, value: str, source: str, target: str, is_read_only: bool
) -> DockerArguments:
    are_paths = all(path.startswith("/") and ".." not in path.split("/") for path in (source, target))
    if not are_paths or target.strip("/") == "" or not value.isprintable():
        raise _bad(option, value, "Give absolute paths of the machine and of the container, as in '/data:/data:ro'.")
    volume = VolumeRequest(source, target, is_read_only)
    return _with_host_access(parsed, option, volumes=(*parsed.request.volumes, volume))


def _variable(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    name, equals, text = value.partition("=")
    if not equals or not _VARIABLE.fullmatch(name):
        raise _bad(option, value, "Write it as NAME=VALUE: the machine's own variables are not the run's.")
    return _with(parsed, variables=(*parsed.request.variables, (name, text)))


def _shm_size(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    return _with(parsed, shm_bytes=size_in_bytes(value, f"{option} of docker.arguments"))


def _cpus(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    _matched(re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?"), option, value, "Give a number such as 1.5.")
    if not float(value) > 0:
        raise _bad(option, value, "Give a number above 0.")
    return _with(parsed, cpus=float(value))


def _gpus(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    """Only whether GPUs are wanted: the compute target decides which ones the run gets."""
    if value != "0":
        _matched(_GPUS, option, value, "Give 'all', a number or 'device=0,1'.")
    return _with(parsed, wants_gpus=value != "0")


def _memory(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    size = size_in_bytes(value, f"{option} of docker.arguments")
    if size < LEAST_MEMORY_BYTES:
        raise _bad(option, value, "Give at least 6m, or leave it out: engines start no container with less.")
    return _with(parsed, memory_bytes=size)


def _runtime(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    if value != "nvidia":
        raise _bad(option, value, "'nvidia' alone is known, which asks for the GPUs.")
    return _with(parsed, wants_gpus=True)


def _ipc(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    if value not in _IPC:
        raise _bad(option, value, f"Give one of {', '.join(sorted(_IPC))}.")
    return _with_host_access(parsed, f"{option}=host", ipc=value) if value == "host" else _with(parsed, ipc=value)


def _network(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    if value not in _NETWORKS:
        raise _bad(option, value, f"Give one of {', '.join(sorted(_NETWORKS))}.")
    return _with(parsed, network=value)


def _user(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    return _with(parsed, user=_matched(_USER, option, value, "Give UID, UID:GID or a name.").group())


def _hostname(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    return _with(
        parsed, hostname=_matched(_NAME, option, value, "Give a name of letters, digits, '-' and '.'.").group()
    )


def _privileged(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    if value.lower() in ("false", "0"):
        return parsed
    return _with_host_access(parsed, option, is_privileged=True)


def _ulimit(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    name, soft, hard = _matched(_LIMIT, option, value, "Write it as in 'memlock=-1' or 'nofile=1024:4096'.").groups()
    limit = (name, int(soft), int(soft if hard is None else hard))
    return _with(parsed, ulimits=(*parsed.request.ulimits, limit))


def _added_capability(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    name = _matched(_CAPABILITY, option, value.upper(), "Give a capability such as SYS_PTRACE.").group()
    return _with_host_access(parsed, option, added_capabilities=(*parsed.request.added_capabilities, name))


def _dropped_capability(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    name = _matched(_CAPABILITY, option, value.upper(), "Give a capability such as NET_RAW.").group()
    return _with(parsed, dropped_capabilities=(*parsed.request.dropped_capabilities, name))


def _device(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    if not value.startswith("/dev/") or ".." in value or not value.isprintable():
        raise _bad(option, value, "Give a device's path, as in '/dev/fuse'.")
    return _with_host_access(parsed, option, devices=(*parsed.request.devices, value))


def _host(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    name, _, address = value.partition(":")
    if not _NAME.fullmatch(name) or not re.fullmatch(r"[0-9a-fA-F.:]{2,39}|host-gateway", address):
        raise _bad(option, value, "Write it as NAME:ADDRESS.")
    return _with(parsed, hosts=(*parsed.request.hosts, (name, address)))


def _security(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    security = (*parsed.request.security, value)
    if value in ("no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"):
        return _with(parsed, security=security)
    if not re.fullmatch(r"(seccomp|apparmor)[=:]unconfined|label[=:]disable", value):
        raise _bad(option, value, "Give no-new-privileges, seccomp=unconfined, apparmor=unconfined or label=disable.")
    return _with_host_access(parsed, f"{option}={value}", security=security)


def _sysctl(parsed: DockerArguments, option: str, value: str) -> DockerArguments:
    name, text = _matched(_SYSCTL, option, value, "Write it as NAME=VALUE.").groups()
    return _with(parsed, sysctls=(*parsed.request.sysctls, (name, text)))


OptionParser = Callable[[DockerArguments, str, str], DockerArguments]
_OPTIONS: Mapping[str, OptionParser] = {
    **dict.fromkeys(IGNORED, _nothing),
    "--volume": _volume,
    "--mount": _mount,
    "--env": _variable,
    "--shm-size": _shm_size,
    "--memory": _memory,
    "--cpus": _cpus,
    "--gpus": _gpus,
    "--runtime": _runtime,
    "--ipc": _ipc,
    "--network": _network,
    "--user": _user,
    "--hostname": _hostname,
    "--privileged": _privileged,
    "--ulimit": _ulimit,
    "--cap-add": _added_capability,
    "--cap-drop": _dropped_capability,
    "--device": _device,
    "--add-host": _host,
    "--security-opt": _security,
    "--sysctl": _sysctl,
}
