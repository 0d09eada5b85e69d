"""RUNYARD_DATASTORES: where the operator of a server puts the default datastores of all workspaces."""

from collections.abc import Mapping
from pathlib import Path

from runyard.core.errors import InvalidArgument
from runyard.core.records.data import StoreAccess

SETTING = "RUNYARD_DATASTORES"
_HINT = "Set it to s3://bucket/prefix, az://container/prefix, gs://bucket/prefix or file:///folder."
_Names = Mapping[str, Mapping[str, tuple[str, ...]]]
# The variables that the tools of the clouds read.
_OPTIONS: _Names = {
    "s3": {
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    },
    "azure": {
        "account_name": ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"),
        "endpoint": ("AZURE_STORAGE_ENDPOINT",),
        "tenant_id": ("AZURE_TENANT_ID",),
        "client_id": ("AZURE_CLIENT_ID",),
    },
    "gcs": {"endpoint": ("STORAGE_EMULATOR_HOST",)},
}
_SECRETS: _Names = {
    "s3": {
        "access_key_id": ("AWS_ACCESS_KEY_ID",),
        "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
        "session_token": ("AWS_SESSION_TOKEN",),
    },
    "azure": {
        "account_key": ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"),
        "sas_token": ("AZURE_STORAGE_SAS_TOKEN",),
        "client_secret": ("AZURE_CLIENT_SECRET",),
    },
    "gcs": {},
}
_SCHEMES = {"s3": "s3", "az": "azure", "gs": "gcs", "file": "folder"}


def operator_store(variables: Mapping[str, str]) -> StoreAccess | None:
    """Access with the operator's credentials; None for the folder of the home. Raises InvalidArgument."""
    place = variables.get(SETTING, "").strip()
    if not place:
        return None
    scheme, separator, rest = place.partition("://")
    kind = _SCHEMES.get(scheme if separator else "")
    root = rest.rstrip("/")
    if kind is None or not root or ".." in root.split("/") or "\0" in root:
        raise InvalidArgument(f"{SETTING} is {place!r}, which names no place.", hint=_HINT)
    if kind == "folder":
        if not root.startswith("/"):
            raise InvalidArgument(f"{SETTING} is {place!r}, which is not absolute.", hint=_HINT)
        return StoreAccess("folder", root)
    secrets = _found(_SECRETS[kind], variables)
    if kind == "gcs" and variables.get("GOOGLE_APPLICATION_CREDENTIALS"):
        secrets["service_account_key"] = _key_file(variables["GOOGLE_APPLICATION_CREDENTIALS"])
    return StoreAccess(kind, root, _found(_OPTIONS[kind], variables), secrets)


def _found(wanted: Mapping[str, tuple[str, ...]], variables: Mapping[str, str]) -> dict[str, str]:
    values = {name: next(filter(None, map(variables.get, names)), "") for name, names in wanted.items()}
    return {name: value for name, value in values.items() if value}


def _key_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"GOOGLE_APPLICATION_CREDENTIALS names {path!r}, which cannot be read: {type(error).__name__}."
        ) from None
