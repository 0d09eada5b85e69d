"""obstore clients for registered object stores.

obstore reads missing settings from the environment of the process. There they are the operator's, which must never open
a user's store. So every setting that obstore would look for is passed explicitly.
"""

import base64
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from runyard.core.errors import AccessDenied, DataFailed, InvalidArgument
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores.objects.egress_proxy import egress_proxy_for
from runyard.data.datastores.objects.location import (
    AZURE_AUTHORITY,
    BucketLocation,
    azure_endpoint,
    bucket_location,
    gcs_endpoint,
    s3_endpoint,
)
from runyard.data.http.address_guard import check_endpoint
from runyard.data.http.addresses import Address, parse_address
from runyard.data.http.proxies import Proxies, Proxy

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, RetryConfig, S3Credential


ObstoreClient = AzureStore | GCSStore | S3Store


def connect(access: StoreAccess, rules: NetworkRules) -> tuple[ObstoreClient, BucketLocation]:
    """Make the client. Raises InvalidArgument for a wrong or missing setting, AccessDenied for a forbidden address."""
    endpoint_of, client_of = _KINDS[access.kind]
    location = bucket_location(access, endpoint_of(access.options))
    check_endpoint(location.endpoint, rules)
    try:
        return client_of(location, access, rules), location
    except (BaseError, ValueError):
        problem = f"The settings or credentials of {location.shown} cannot be used."
    # Raised outside the handler: the text of obstore's error may hold a part of the credential.
    raise InvalidArgument(problem, hint="Check that the credential was copied whole, and register the datastore again.")


def _s3(location: BucketLocation, access: StoreAccess, rules: NetworkRules) -> ObstoreClient:
    key_id, key = access.secrets.get("access_key_id"), access.secrets.get("secret_access_key")
    if bool(key_id) != bool(key):
        raise InvalidArgument("Of access_key_id and secret_access_key one is missing.", hint="Give both, or neither.")
    return S3Store(
        location.container,
        prefix=location.prefix or None,
        endpoint=location.endpoint,
        aws_endpoint_url_s3=location.endpoint,
        region=access.options.get("region") or "us-east-1",
        virtual_hosted_style_request=False,
        disable_bulk_delete=True,  # many S3-compatible stores do not have it
        skip_signature=not key,
        credential_provider=_S3Credentials(access.secrets) if key else None,
        client_options=client_options(location.endpoint, rules),
        retry_config=retry_config(rules),
    )


class _S3Credentials:
    """Credentials as a callable: otherwise obstore takes a missing session token from the environment."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets

    def __call__(self) -> "S3Credential":
        return {
            "access_key_id": self._secrets["access_key_id"],
            "secret_access_key": self._secrets["secret_access_key"],
            "token": self._secrets.get("session_token") or None,
            "expires_at": None,
        }


def _azure(location: BucketLocation, access: StoreAccess, rules: NetworkRules) -> ObstoreClient:
    return AzureStore(
        location.container,
        prefix=location.prefix or None,
        config=_azure_config(access, rules),
        endpoint=location.endpoint,
        client_options=client_options(location.endpoint, rules),
        retry_config=retry_config(rules),
    )


def _azure_config(access: StoreAccess, rules: NetworkRules) -> "AzureConfig":
    account, secrets = access.options.get("account_name", ""), access.secrets
    if not account:
        raise InvalidArgument("account_name is missing.", hint="Give the name of the storage account.")
    if secrets.get("account_key"):
        return {"account_name": account, "credential_type": "access_key", "account_key": secrets["account_key"]}
    if secrets.get("sas_token"):
        token = secrets["sas_token"].strip().removeprefix("?")
        return {"account_name": account, "credential_type": "sas_token", "sas_key": token}
    if not secrets.get("client_secret"):
        return {"account_name": account, "skip_signature": True}
    tenant, client = access.options.get("tenant_id", ""), access.options.get("client_id", "")
    if not tenant or not client:
        raise InvalidArgument(
            "A service principal needs tenant_id, client_id and client_secret.", hint="Give all three."
        )
    authority = access.options.get("authority") or AZURE_AUTHORITY
    check_endpoint(authority, rules)
    return {
        "account_name": account,
        "credential_type": "client_secret",
        "tenant_id": tenant,
        "client_id": client,
        "client_secret": secrets["client_secret"],
        "authority_host": authority.rstrip("/"),
    }


def _gcs(location: BucketLocation, access: StoreAccess, rules: NetworkRules) -> ObstoreClient:
    key = access.secrets.get("service_account_key", "")
    config: GCSConfig = {"service_account_key": key} if key else {"skip_signature": True}
    # Without a key, obstore would sign writes with credentials from the machine's metadata service.
    return GCSStore(
        location.container,
        prefix=location.prefix or None,
        config=config,
        base_url=location.endpoint,
        credential_provider=None if key else _no_credentials,
        client_options=client_options(location.endpoint, rules),
        retry_config=retry_config(rules),
    )


def _no_credentials() -> NoReturn:
    raise PermissionError("The datastore has no credentials.")


_KINDS: Mapping[
    str, tuple[Callable[[Mapping[str, str]], str], Callable[[BucketLocation, StoreAccess, NetworkRules], ObstoreClient]]
] = {"azure": (azure_endpoint, _azure), "gcs": (gcs_endpoint, _gcs), "s3": (s3_endpoint, _s3)}

_WHOLE_TRANSFER = timedelta(days=7)
_FIRST_PAUSE = timedelta(milliseconds=50)
_LONGEST_PAUSE = timedelta(seconds=2)
_UNUSED_PROXY = "http://127.0.0.1:9"


def client_options(endpoint: str, rules: NetworkRules) -> "ClientConfig":
    """Proxy, certificates and timeouts for requests to `endpoint`; the variables of the process are not used.

    Raises AccessDenied for plain http where private addresses are forbidden: a redirect could lead to one.
    """
    address = parse_address(endpoint)
    options: ClientConfig = {
        "allow_http": address.scheme == "http",
        "timeout": _WHOLE_TRANSFER,  # read_timeout ends a transfer that stalls; a slow one may take days
        "read_timeout": timedelta(seconds=rules.silence_seconds),
        "connect_timeout": timedelta(seconds=min(rules.silence_seconds, 10.0)),
        **_proxy(address, rules),
    }
    bundle = _certificates_file(rules)
    if bundle is not None:
        options["root_certificate"] = _read(bundle)
    return options


def _proxy(address: Address, rules: NetworkRules) -> "ClientConfig":
    proxy = Proxies(rules.variables).find(address)
    if proxy:
        return {"proxy_url": _url(proxy), "proxy_excludes": ""}
    if rules.allow_private:
        # Without proxy_url, obstore uses the proxy of the environment. "*" matches host names only, not IP addresses.
        return {"proxy_url": _UNUSED_PROXY, "proxy_excludes": "*,0.0.0.0/0,::/0"}
    if address.scheme == "http":
        raise AccessDenied(
            f"{address.shown} is plain http, which datastores may not use on this server.",
            hint="Give an https address.",
        )
    return {"proxy_url": egress_proxy_for(rules).url, "proxy_excludes": ""}


def retry_config(rules: NetworkRules) -> "RetryConfig":
    return {
        "max_retries": 1_000_000,  # retry_timeout is the limit
        "retry_timeout": timedelta(seconds=rules.retry_seconds),
        "backoff": {"init_backoff": _FIRST_PAUSE, "max_backoff": _LONGEST_PAUSE, "base": 2},
    }


def _certificates_file(rules: NetworkRules) -> Path | None:
    """CA bundle that the variables name. A folder is ignored: the certificates of the system are trusted anyway."""
    name = rules.certificates_variable
    return Path(rules.variables[name]) if name and not Path(rules.variables[name]).is_dir() else None


def _read(bundle: Path) -> bytes:
    try:
        return bundle.read_bytes()
    except OSError as error:
        raise DataFailed(
            f"The certificates in {str(bundle)!r} cannot be read: {error.strerror}.",
            hint="Set SSL_CERT_FILE to a readable bundle of certificates in PEM form.",
        ) from error


def _url(proxy: Proxy) -> str:
    host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
    user, colon, password = base64.b64decode(proxy.authorization.removeprefix("Basic ")).decode().partition(":")
    login = f"{quote(user, safe='')}{colon}{quote(password, safe='')}@" if user or password else ""
    return f"http://{login}{host}:{proxy.port}"
