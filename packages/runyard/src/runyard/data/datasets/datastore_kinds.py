"""Kinds of datastores: the settings and credentials of each, and the store access made from them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from runyard.core.errors import InvalidArgument
from runyard.core.records.data import StoreAccess

WORKSPACE_KIND = "workspace"
LONGEST_SETTING = 4096
LONGEST_CREDENTIAL = 65536
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_AZURE_WORDS = ("protocol", "endpoint", "subscription_id", "resource_group")
Texts = Mapping[str, str]


@dataclass(frozen=True)
class DatastoreKind:
    v1_type: str
    required: tuple[str, ...]
    access: Callable[[Texts, Texts], StoreAccess]
    """Makes the access from settings and credentials."""
    optional: tuple[str, ...] = ()
    credentials: Mapping[str, str] = field(default_factory=dict)
    """Credential type (SDK v1) by the name of the credential; "" for one that accompanies another."""


def _bucket_access(kind: str, container: str, *options: str, **renamed: str) -> Callable[[Texts, Texts], StoreAccess]:
    def access(settings: Texts, credentials: Texts) -> StoreAccess:
        root = "/".join(filter(None, (settings[container], settings.get("prefix", ""))))
        names = {name: name for name in options} | renamed
        chosen = {to: settings[name] for name, to in names.items() if settings.get(name)}
        return StoreAccess(kind, root, chosen, dict(credentials))

    return access


KINDS: Mapping[str, DatastoreKind] = {
    "folder": DatastoreKind("Folder", ("folder",), lambda settings, _: StoreAccess("folder", settings["folder"])),
    "azure_blob": DatastoreKind(
        "AzureBlob",
        ("account_name", "container_name"),
        _bucket_access("azure", "container_name", "account_name", "protocol", "endpoint"),
        _AZURE_WORDS,
        {"account_key": "AccountKey", "sas_token": "Sas"},
    ),
    "azure_data_lake_gen2": DatastoreKind(
        "AzureDataLakeGen2",
        ("account_name", "filesystem"),
        _bucket_access(
            *("azure", "filesystem", "account_name", "tenant_id", "client_id", "protocol", "endpoint"),
            authority_url="authority",
        ),
        ("tenant_id", "client_id", "authority_url", *_AZURE_WORDS),
        {"client_secret": "ServicePrincipal"},
    ),
    "s3": DatastoreKind(
        "S3",
        ("bucket",),
        _bucket_access("s3", "bucket", "region", "endpoint"),
        ("prefix", "region", "endpoint"),
        {"access_key_id": "AccessKey", "secret_access_key": "", "session_token": ""},
    ),
    "gcs": DatastoreKind(
        "GCS",
        ("bucket",),
        _bucket_access("gcs", "bucket", "endpoint"),
        ("prefix", "endpoint"),
        {"service_account_key": "ServiceAccount"},
    ),
    "web": DatastoreKind("Web", ("address",), lambda settings, _: StoreAccess("web", settings["address"])),
}


def checked_settings(kind: str, given: Texts) -> dict[str, str]:
    """Settings without empty ones. Raises InvalidArgument naming the setting that is wrong, unknown or missing."""
    known = kind_named(kind)
    names = (*known.required, *known.optional)
    settings = _checked(given, names, f"setting of a datastore of kind {kind!r}", LONGEST_SETTING)
    for name in known.required:
        if not settings.get(name):
            raise InvalidArgument(f"A datastore of kind {kind!r} needs {name}.", hint=f"It takes {', '.join(names)}.")
    for name, value in settings.items():
        if _CONTROL.search(value):
            raise InvalidArgument(f"{name} holds a control character.", hint="Give it without line ends and the like.")
        if name in ("prefix", "container_name", "filesystem", "bucket"):
            _check_bucket_path(name, value)
        # An Azure endpoint may be a part of a host name, such as core.windows.net.
        if name in ("address", "endpoint", "authority_url"):
            is_part = name != "address" and "://" not in value
            _check_address(name, f"https://{value}" if is_part else value)
    return settings


def checked_credentials(kind: str, given: Texts) -> dict[str, str]:
    """Credentials without empty ones. Raises InvalidArgument; its message never holds a value."""
    known = kind_named(kind)
    credentials = _checked(
        given, tuple(known.credentials), f"credential of a datastore of kind {kind!r}", LONGEST_CREDENTIAL
    )
    if kind == "s3" and len({"access_key_id", "secret_access_key"} & set(credentials)) == 1:
        raise InvalidArgument("access_key_id and secret_access_key go together.", hint="Give both, or none.")
    if {"account_key", "sas_token"} <= set(credentials):
        raise InvalidArgument("Both account_key and sas_token are given.", hint="Give one of them.")
    return credentials


def credential_type(kind: str, credentials: Mapping[str, str]) -> str:
    """Credential type, as SDK v1 names it."""
    types = kind_named(kind).credentials
    return next((types[name] for name in types if name in credentials and types[name]), "None")


def kind_named(kind: str) -> DatastoreKind:
    try:
        return KINDS[kind]
    except (KeyError, TypeError):
        raise InvalidArgument(
            f"{ascii(kind)[:80]} is not a kind of datastore.", hint=f"Kinds are {', '.join(KINDS)}."
        ) from None


def _checked(given: Texts, names: tuple[str, ...], what: str, longest: int) -> dict[str, str]:
    kept: dict[str, str] = {}
    for name, value in given.items():
        if name not in names:
            known = ", ".join(names) or "none"
            raise InvalidArgument(f"{ascii(name)[:80]} is not a {what}.", hint=f"Known: {known}.")
        if len(value) > longest:
            raise InvalidArgument(f"{name} is longer than {longest} characters.")
        if value:
            kept[name] = value
    return kept


def _check_bucket_path(name: str, value: str) -> None:
    parts = value.split("/")
    if any(part in ("", ".", "..") for part in parts) or (len(parts) > 1 and name != "prefix"):
        right = "a path such as 'data/2026'" if name == "prefix" else "one name, without '/'"
        raise InvalidArgument(f"{name} {ascii(value)[:80]} is not right.", hint=f"Give {right}.")


def _check_address(name: str, value: str) -> None:
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.username or parts.password:
        raise InvalidArgument(f"{name} holds a user name or password.", hint="Give credentials apart from it.")
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in value:
        raise InvalidArgument(
            f"{name} {ascii(value)[:80]} is not a web address.", hint="Give one with http:// or https://."
        )
    if parts.query or parts.fragment:
        raise InvalidArgument(f"{name} holds a query.", hint="Give the address up to its '?'.")
