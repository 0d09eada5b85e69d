"""What an operator may set. Read when the service starts, from variables that begin with RUNYARD_."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from runyard.errors import InvalidArgument
from runyard.model.data import StoreAccess
from runyard.operator_stores import operator_store

MB = 1024 * 1024
GB = 1024 * MB
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
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
    """Address of the run pages when it is not the one listened on."""
    idle_seconds: float = 1800.0
    snapshot_warn_bytes: int = 300 * MB
    snapshot_max_bytes: int = 10 * GB
    json_max_bytes: int = 64 * MB
    operator_store: StoreAccess | None = None
    """Below which the workspaces' own datastores lie; None means the home."""
    data_folders: tuple[Path, ...] = ()
    """Below which a datastore may be a folder on a service that others reach, too."""
    allow_private_addresses: bool = True
    refuse_changed_data: bool = False
    max_file_bytes: int | None = None
    """The largest file that is read from the web; None means the defaults of NetworkRules."""
    network_variables: Mapping[str, str] = field(default_factory=dict)
    """The service's own proxies and certificates."""

    @property
    def store_url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'runyard.db'}"

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but users of this machine can reach the service."""
        return self.host in LOOPBACK_NAMES or self.host.startswith("127.")


def home_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """RUNYARD_HOME, else ~/.runyard; absolute, and not made here."""
    return Path(variables.get("RUNYARD_HOME") or "~/.runyard").expanduser().absolute()


def read_settings(variables: Mapping[str, str] = os.environ, home: Path | None = None) -> Settings:
    """Raises InvalidArgument naming the variable whose value cannot be used."""
    hosts = variables.get("RUNYARD_ALLOWED_HOSTS", "")
    found = Settings(
        home=home or home_folder(variables),
        database_url=variables.get("RUNYARD_DATABASE_URL", ""),
        host=variables.get("RUNYARD_HOST", "127.0.0.1"),
        port=int(_number(variables, "RUNYARD_PORT", 0)),
        allowed_hosts=LOOPBACK_NAMES | {host.strip().lower() for host in hosts.split(",") if host.strip()},
        public_url=variables.get("RUNYARD_PUBLIC_URL", "").rstrip("/"),
        idle_seconds=_number(variables, "RUNYARD_IDLE_SECONDS", 1800.0),
        snapshot_max_bytes=int(_number(variables, "RUNYARD_SNAPSHOT_MAX_BYTES", 10 * GB)),
        operator_store=operator_store(variables),
        data_folders=_folders(variables, "RUNYARD_DATA_FOLDERS"),
        refuse_changed_data=_choice(variables, "RUNYARD_CHANGED_DATA", ("warn", "refuse")) == "refuse",
        max_file_bytes=int(_number(variables, "RUNYARD_MAX_FILE_BYTES", 0)) or None,
        network_variables=network_variables(variables),
    )
    allowed = _choice(variables, "RUNYARD_ALLOW_PRIVATE_ADDRESSES", ("1" if found.is_loopback else "0", "0", "1"))
    return replace(found, allow_private_addresses=allowed == "1")


def network_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that name proxies and certificates."""
    return {name: value for name, value in variables.items() if name in NETWORK_VARIABLES and value}


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


def _folders(variables: Mapping[str, str], name: str) -> tuple[Path, ...]:
    folders = [text for text in variables.get(name, "").split(":") if text.strip()]
    for text in folders:
        if not os.path.isabs(text) or "\0" in text:
            raise InvalidArgument(
                f"{name} names {text!r}, which is no absolute folder.", hint="Part several by ':', as in PATH."
            )
    return tuple(Path(text) for text in folders)
