"""Settings of pip and uv that choose package indexes, each translated for the other.

uv does not read pip's configuration, so pip's settings become uv's variables.
"""

import configparser
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

PASSED_ON = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME",
    "http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "RUNYARD_PART",  # a supervisor finds leftover builds of a killed one by it
)  # fmt: skip
# Others, such as UV_CONSTRAINT, would change the content of an environment that is shared with other users.
UV_PASSED_ON = (
    "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX_STRATEGY", "UV_FIND_LINKS",
    "UV_CACHE_DIR", "UV_LINK_MODE", "UV_CONFIG_FILE", "UV_NO_CONFIG", "UV_OFFLINE", "UV_INSECURE_HOST", "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS", "UV_KEYRING_PROVIDER", "UV_HTTP_TIMEOUT", "UV_HTTP_CONNECT_TIMEOUT", "UV_HTTP_RETRIES",
    "UV_REQUEST_TIMEOUT", "UV_CONCURRENT_DOWNLOADS", "UV_CONCURRENT_BUILDS", "UV_CONCURRENT_INSTALLS",
    "UV_LOCK_TIMEOUT", "UV_CREDENTIALS_DIR",
)  # fmt: skip
WORKSPACE_INDEX = "WORKSPACE_INDEX"
"""Variable that is set when the workspace's settings name an index."""
NAMES_INDEX = re.compile(r"\s*(?:--index-url|-i)\b")
UV_INDEX_LOGIN = re.compile(r"UV_INDEX_\w+_(USERNAME|PASSWORD)")
UV_TO_PIP = {
    "PIP_INDEX_URL": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "PIP_EXTRA_INDEX_URL": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "PIP_FIND_LINKS": ("UV_FIND_LINKS",),
    "PIP_NO_INDEX": ("UV_NO_INDEX",),
}
# pip takes the best version of all indexes; uv by default stops at the first index that has the name.
ALL_INDEXES = "unsafe-best-match"
_ON = ("1", "true", "yes", "on")
UV_CHOOSES_INDEX = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_NO_INDEX")


def uv_variables(variables: Mapping[str, str], requirements: Sequence[str] = ()) -> dict[str, str]:
    """Environment variables for uv: the submitter's, with pip's indexes and wheel folders where uv has none of its own.

    Variables, not options: an address may contain a password, and command lines are readable by every user. An index
    named in the requirements wins over variables, as with pip, but not over the workspace's index.
    """
    kept = {
        name: value
        for name, value in variables.items()
        if name in PASSED_ON or name in UV_PASSED_ON or UV_INDEX_LOGIN.fullmatch(name)
    }
    pip = pip_settings(variables)
    certificate = pip.get("cert")
    if certificate and not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & kept.keys():
        kept["SSL_CERT_FILE"] = certificate
    if pip.get("find-links"):
        kept.setdefault("UV_FIND_LINKS", ",".join(pip["find-links"].split()))
    if pip.get("trusted-host"):
        kept.setdefault("UV_INSECURE_HOST", " ".join(pip["trusted-host"].split()))
    if not _chose_for_uv(variables):
        kept |= _indexes_of(pip)
    if WORKSPACE_INDEX not in variables and any(NAMES_INDEX.match(line) for line in requirements):
        kept = {name: value for name, value in kept.items() if name not in ("UV_DEFAULT_INDEX", "UV_INDEX_URL")}
    return {**kept, "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}


def uv_options(variables: Mapping[str, str]) -> list[str]:
    """Options of uv for settings that have no variable."""
    no_index = pip_settings(variables).get("no-index", "").lower() in _ON
    return ["--no-index"] if no_index and not _chose_for_uv(variables) else []


def uv_configuration(variables: Mapping[str, str]) -> list[str]:
    """Contents of the configuration files that uv reads: UV_CONFIG_FILE, else the user's and the system's."""
    if variables.get("UV_NO_CONFIG", "").lower() in _ON:
        return []
    named = variables.get("UV_CONFIG_FILE")
    home = Path(variables.get("HOME") or "/nonexistent")
    user = Path(variables.get("XDG_CONFIG_HOME") or home / ".config") / "uv/uv.toml"
    files = [Path(named)] if named else [user, Path("/etc/xdg/uv/uv.toml"), Path("/etc/uv/uv.toml")]
    return [text for file in files if (text := _text(file))]


def pip_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables for pip: the submitter's, with uv's indexes where they are set."""
    kept = {name: value for name, value in variables.items() if name in PASSED_ON or name.startswith("PIP_")}
    for pip_name, names in UV_TO_PIP.items():
        given = next((variables[name] for name in names if variables.get(name)), "")
        if given:
            # uv allows NAME=URL for an index, and separates wheel folders by commas.
            kept[pip_name] = re.sub(r"(^|\s)[\w-]+=(?=http)", r"\1", given.replace(",", " "))
    if variables.get("SSL_CERT_FILE"):
        kept.setdefault("PIP_CERT", variables["SSL_CERT_FILE"])
    if variables.get("UV_OFFLINE"):
        kept["PIP_NO_INDEX"] = "1"
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PYTHONUNBUFFERED": "1"}


def pip_settings(variables: Mapping[str, str]) -> dict[str, str]:
    """pip's effective settings: its configuration files in order, then its variables."""
    settings: dict[str, str] = {}
    for file in _pip_files(variables):
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, configparser.Error):
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                settings.update({name.replace("_", "-"): value for name, value in parser.items(section)})
    for name, value in variables.items():
        if name.startswith("PIP_") and value:
            settings[name[4:].lower().replace("_", "-")] = value
    return settings


def _chose_for_uv(variables: Mapping[str, str]) -> bool:
    return any(name in variables for name in UV_CHOOSES_INDEX)


def _indexes_of(pip: Mapping[str, str]) -> dict[str, str]:
    indexes = {"UV_DEFAULT_INDEX": pip["index-url"]} if pip.get("index-url") else {}
    extra = " ".join(pip.get("extra-index-url", "").split())
    return {**indexes, "UV_INDEX": extra, "UV_INDEX_STRATEGY": ALL_INDEXES} if extra else indexes


def _pip_files(variables: Mapping[str, str]) -> list[Path]:
    chosen = variables.get("PIP_CONFIG_FILE")
    if chosen == "/dev/null":
        return []
    home = Path(variables.get("HOME") or "/nonexistent")
    config = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf", config / "pip/pip.conf"]
    return [*files, *([Path(chosen)] if chosen else [])]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
