"""What an operator may set. Read when the service starts, from variables that begin with RUNYARD_."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runyard.errors import InvalidArgument
from runyard.listen_settings import LOOPBACK_NAMES, Listen, allows_plain, is_loopback, listen_settings
from runyard.model.data import StoreAccess
from runyard.model.web_services import Listening
from runyard.operator_stores import operator_store
from runyard.web_service_settings import web_service_settings

MB = 1024 * 1024
GB = 1024 * MB
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
NETWORK_VARIABLES = frozenset({*PROXIES, *(name.upper() for name in PROXIES), *CERTIFICATES})


@dataclass(frozen=True)
class Settings:
    """The defaults are those of a laptop: loopback only, SQLite and plain files below `home`."""

    home: Path
    database_url: str = ""
    """Empty means SQLite in the home."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 means the last port if it is free, else any."""
    allowed_hosts: frozenset[str] = LOOPBACK_NAMES
    public_url: str = ""
    """Address of the run pages, and of the service for other machines, when it is not the one listened on."""
    trusted_proxies: frozenset[str] = frozenset()
    """Addresses of proxies whose word counts on where a request comes from."""
    listen: Listen | None = None
    """Where others than this machine reach it, beside `host` and `port`."""
    allows_plain: bool = False
    """The operator has said that what leaves this machine need not be encrypted."""
    node_url: str = ""
    """Where nodes and users of other machines reach the service; empty where they do not. Known once it listens."""
    node_ca: str = ""
    """Certificates in PEM form that nodes shall trust beside their system's."""
    ca_file: Path | None = None
    """The operator's own choice of those."""
    engine: str = "local"
    """The compute kind of targets that name none. Checked where the kinds are known."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All that begin with RUNYARD_: compute kinds read their own, which begin with RUNYARD_ and the kind's name."""
    vm_sizes: Path | None = None
    """A file that adds to the table of vm_size, or replaces rows of it."""
    network: str = "auto"
    """Of distributed runs on this machine: "private", "host", or "auto": private where that can be."""
    run_root: Path | None = None
    """Where environments, folders of scripts and mounts lie; None leaves them where they are, at first in the home."""
    idle_seconds: float = 1800.0
    snapshot_warn_bytes: int = 300 * MB
    snapshot_max_bytes: int = 10 * GB
    json_max_bytes: int = 64 * MB
    max_metric_names: int = 20_000
    """Of one run; points of further names are left out, with a warning."""
    operator_store: StoreAccess | None = None
    """Below which the workspaces' own datastores lie; None means the home."""
    data_folders: tuple[Path, ...] = ()
    """Below which a datastore may be a folder on a service that others reach, too."""
    allow_private_addresses: bool = True
    refuse_changed_data: bool = False
    allows_container_host_access: bool = True
    refuses_missing_gpus: bool = False
    """Docker arguments of users may reach for the machine: its folders, devices, memory and capabilities."""
    max_file_bytes: int | None = None
    """The largest file that is read from the web; None means the defaults of NetworkRules."""
    network_variables: Mapping[str, str] = field(default_factory=dict)
    """The service's own proxies and certificates."""
    web_services: Listening = field(default_factory=Listening)
    log_level: str = "info"
    """The least level that is logged. Without "info" requests that went well are not in the access log."""

    @property
    def store_url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'runyard.db'}"

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but users of this machine can reach the service."""
        is_near = is_loopback(self.host) and (self.listen is None or is_loopback(self.listen.host))
        return is_near and not self.is_behind_proxy

    @property
    def is_behind_proxy(self) -> bool:
        """Whether requests of other machines come in by an address of this one: it has a public name."""
        return bool(self.public_url) and not is_loopback(urlsplit(self.public_url).hostname or "")


def home_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """RUNYARD_HOME, else ~/.runyard; absolute, and not made here."""
    return Path(variables.get("RUNYARD_HOME") or "~/.runyard").expanduser().absolute()


def read_settings(variables: Mapping[str, str] = os.environ, home: Path | None = None) -> Settings:
    """Raises InvalidArgument naming the variable whose value cannot be used."""
    hosts = variables.get("RUNYARD_ALLOWED_HOSTS", "")
    public_url = _web_address(variables, "RUNYARD_PUBLIC_URL")
    hosts = f"{hosts},{urlsplit(public_url).hostname or ''}"
    found = Settings(
        home=home or home_folder(variables),
        database_url=variables.get("RUNYARD_DATABASE_URL", ""),
        host=variables.get("RUNYARD_HOST", "127.0.0.1"),
        port=int(_number(variables, "RUNYARD_PORT", 0)),
        allowed_hosts=LOOPBACK_NAMES | {host.strip().lower() for host in hosts.split(",") if host.strip()},
        public_url=public_url,
        trusted_proxies=_addresses(variables, "RUNYARD_TRUSTED_PROXIES"),
        listen=listen_settings(variables),
        allows_plain=allows_plain(variables),
        ca_file=_file(variables, "RUNYARD_CA"),
        **_engine_settings(variables),
        run_root=_folder(variables, "RUNYARD_RUN_ROOT"),
        idle_seconds=_number(variables, "RUNYARD_IDLE_SECONDS", 1800.0),
        snapshot_max_bytes=int(_number(variables, "RUNYARD_SNAPSHOT_MAX_BYTES", 10 * GB)),
        max_metric_names=int(_number(variables, "RUNYARD_MAX_METRIC_NAMES", 20_000)),
        operator_store=operator_store(variables),
        data_folders=_folders(variables, "RUNYARD_DATA_FOLDERS"),
        refuse_changed_data=_choice(variables, "RUNYARD_CHANGED_DATA", ("warn", "refuse")) == "refuse",
        max_file_bytes=int(_number(variables, "RUNYARD_MAX_FILE_BYTES", 0)) or None,
        network_variables=network_variables(variables),
        web_services=web_service_settings(variables),
        log_level=_choice(variables, "RUNYARD_LOG_LEVEL", ("info", "debug", "warning", "error")),
    )
    default = "1" if found.is_loopback else "0"
    return replace(
        found,
        allow_private_addresses=_choice(variables, "RUNYARD_ALLOW_PRIVATE_ADDRESSES", (default, "0", "1")) == "1",
        refuses_missing_gpus=_choice(variables, "RUNYARD_MISSING_GPU", ("warn", "refuse")) == "refuse",
        allows_container_host_access=_choice(variables, "RUNYARD_CONTAINER_HOST_ACCESS", (default, "0", "1")) == "1",
    )


def _engine_settings(variables: Mapping[str, str]) -> dict[str, Any]:
    return {
        "engine": variables.get("RUNYARD_ENGINE", "").strip().lower() or "local",
        "variables": {name: value for name, value in variables.items() if name.startswith("RUNYARD_")},
        "vm_sizes": _file(variables, "RUNYARD_VM_SIZES"),
        "network": _choice(variables, "RUNYARD_NETWORK", ("auto", "private", "host")),
    }


def network_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that name proxies and certificates."""
    return {name: value for name, value in variables.items() if name in NETWORK_VARIABLES and value}


def _web_address(variables: Mapping[str, str], name: str) -> str:
    text = variables.get(name, "").strip().rstrip("/")
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        is_right = False
    if text and not (is_right and not parts.query and not parts.fragment):
        raise InvalidArgument(f"{name} is {text!r}, which is no address.", hint="Set it as in https://train.example.")
    return text


def _addresses(variables: Mapping[str, str], name: str) -> frozenset[str]:
    found = set()
    for text in variables.get(name, "").split(","):
        if not text.strip():
            continue
        try:
            found.add(str(ipaddress.ip_address(text.strip())))
        except ValueError:
            raise InvalidArgument(
                f"{name} names {text.strip()!r}, which is no address.",
                hint="Set it as in 127.0.0.1,10.0.0.2.",
            ) from None
    return frozenset(found)


def _file(variables: Mapping[str, str], name: str) -> Path | None:
    text = variables.get(name, "")
    if not text:
        return None
    path = Path(text).expanduser().absolute()
    if "\0" in text or not path.is_file() or not os.access(path, os.R_OK):
        raise InvalidArgument(f"{name} names {text!r}, which is no readable file.", hint="Set it to a file's path.")
    return path


def _number(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name, "")
    try:
        value = float(text) if text else float(default)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InvalidArgument(f"{name} must be a number of at least 0, got {text!r}.")
    return value


def _choice(variables: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    """The first is the default."""
    value = variables.get(name, "").strip().lower() or known[0]
    if value not in known:
        raise InvalidArgument(f"{name} is {value!r}.", hint=f"Set it to {' or '.join(sorted(set(known)))}.")
    return value


def _folder(variables: Mapping[str, str], name: str) -> Path | None:
    text = variables.get(name, "")
    if text and (not os.path.isabs(text) or "\0" in text):
        raise InvalidArgument(f"{name} is {text!r}.", hint="Set it to the absolute path of a folder.")
    return Path(text) if text else None


def _folders(variables: Mapping[str, str], name: str) -> tuple[Path, ...]:
    folders = [text for text in variables.get(name, "").split(":") if text.strip()]
    for text in folders:
        if not os.path.isabs(text) or "\0" in text:
            raise InvalidArgument(
                f"{name} names {text!r}, which is no absolute folder.", hint="Part several by ':', as in PATH."
            )
    return tuple(Path(text) for text in folders)
