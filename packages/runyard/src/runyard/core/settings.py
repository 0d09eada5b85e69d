"""Settings of the operator, read at start from environment variables that begin with RUNYARD_."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runyard.core.errors import InvalidArgument
from runyard.core.listen_settings import LOOPBACK_NAMES, ListenAddress, allows_plain, is_loopback, listen_settings
from runyard.core.operator_datastores import operator_store
from runyard.core.records.data import StoreAccess
from runyard.core.records.web_services import ListenDefaults
from runyard.core.web_service_settings import web_service_settings

MB = 1024 * 1024
GB = 1024 * MB
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
NETWORK_VARIABLES = frozenset({*PROXIES, *(name.upper() for name in PROXIES), *CERTIFICATES})


@dataclass(frozen=True)
class Settings:
    """Settings of the service. The defaults suit a laptop: loopback only, SQLite and plain files below `home`."""

    home: Path
    database_url: str = ""
    """Empty: SQLite in the home."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: the last port if it is free, else any."""
    allowed_hosts: frozenset[str] = LOOPBACK_NAMES
    public_url: str = ""
    """Address of run pages and of the service for other machines, where it differs from the listener's."""
    trusted_proxies: frozenset[str] = frozenset()
    """Addresses of proxies whose X-Forwarded headers are applied."""
    listen: ListenAddress | None = None
    """Second listener, for other machines; None without one."""
    allows_plain: bool = False
    """Whether connections to other machines may be unencrypted."""
    node_url: str = ""
    """Address of the service for other machines; empty where they cannot reach it. Set once it listens."""
    node_ca: str = ""
    """PEM certificates that nodes trust besides those of their system."""
    ca_file: Path | None = None
    """File with the operator's certificates for `node_ca`."""
    engine: str = "local"
    """Compute kind of targets that name none. Checked by the registry of kinds."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All variables that begin with RUNYARD_; a compute kind reads those that continue with its name."""
    vm_sizes: Path | None = None
    """File whose rows extend or replace the table of vm_size."""
    network: str = "auto"
    """Network of distributed runs on this machine: "private", "host", or "auto" for private where possible."""
    run_root: Path | None = None
    """Folder of environments, scripts and mounts; None leaves them where they are, by default in the home."""
    idle_seconds: float = 1800.0
    snapshot_warn_bytes: int = 300 * MB
    snapshot_max_bytes: int = 10 * GB
    json_max_bytes: int = 64 * MB
    max_metric_names: int = 20_000
    """Limit of one run; points of further names are dropped with a warning."""
    operator_store: StoreAccess | None = None
    """Store of the workspaces' own datastores; None: the home."""
    data_folders: tuple[Path, ...] = ()
    """Folders below which datastores may lie, where other machines reach the service."""
    allow_private_addresses: bool = True
    refuse_changed_data: bool = False
    allows_container_host_access: bool = True
    """Whether docker arguments of users may use folders, devices, memory and capabilities of the machine."""
    refuses_missing_gpus: bool = False
    max_file_bytes: int | None = None
    """Largest file that is read from the web; None: the default of NetworkRules."""
    network_variables: Mapping[str, str] = field(default_factory=dict)
    """The service's own proxies and certificates."""
    web_services: ListenDefaults = field(default_factory=ListenDefaults)
    log_level: str = "info"
    """Lowest level that is logged. Above "info" the access log holds only errors."""

    @property
    def store_url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'runyard.db'}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        is_near = is_loopback(self.host) and (self.listen is None or is_loopback(self.listen.host))
        return is_near and not self.is_behind_proxy

    @property
    def is_behind_proxy(self) -> bool:
        """Whether a proxy passes on requests of other machines: there is a public address."""
        return bool(self.public_url) and not is_loopback(urlsplit(self.public_url).hostname or "")


def home_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """Absolute path of RUNYARD_HOME, else ~/.runyard. Does not create it."""
    return Path(variables.get("RUNYARD_HOME") or "~/.runyard").expanduser().absolute()


def read_settings(variables: Mapping[str, str] = os.environ, home: Path | None = None) -> Settings:
    """Raise InvalidArgument that names the variable with an invalid value."""
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
    """Variables that name proxies and certificates."""
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
