"""What an operator may set. Read when the service starts, from variables that begin with RUNYARD_."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runyard.errors import InvalidArgument

MB = 1024 * 1024
GB = 1024 * MB
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


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

    @property
    def store_url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'runyard.db'}"


def home_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """RUNYARD_HOME, else ~/.runyard; absolute, and not made here."""
    return Path(variables.get("RUNYARD_HOME") or "~/.runyard").expanduser().absolute()


def read_settings(variables: Mapping[str, str] = os.environ, home: Path | None = None) -> Settings:
    """Raises InvalidArgument naming the variable whose value cannot be used."""
    hosts = variables.get("RUNYARD_ALLOWED_HOSTS", "")
    return Settings(
        home=home or home_folder(variables),
        database_url=variables.get("RUNYARD_DATABASE_URL", ""),
        host=variables.get("RUNYARD_HOST", "127.0.0.1"),
        port=int(_number(variables, "RUNYARD_PORT", 0)),
        allowed_hosts=LOOPBACK_NAMES | {host.strip().lower() for host in hosts.split(",") if host.strip()},
        public_url=variables.get("RUNYARD_PUBLIC_URL", "").rstrip("/"),
        idle_seconds=_number(variables, "RUNYARD_IDLE_SECONDS", 1800.0),
        snapshot_max_bytes=int(_number(variables, "RUNYARD_SNAPSHOT_MAX_BYTES", 10 * GB)),
    )


def _number(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name, "")
    try:
        value = float(text) if text else float(default)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InvalidArgument(f"{name} must be a number of at least 0, got {text!r}.")
    return value
