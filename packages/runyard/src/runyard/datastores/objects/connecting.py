"""obstore clients for registered object stores.

obstore reads missing settings from the environment of the process. There they are the operator's, which must never open
a user's store. So every setting that obstore would look for is passed explicitly.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from runyard.datastores.objects.endpoints import AZURE_AUTHORITY, azure_endpoint, gcs_endpoint, s3_endpoint
from runyard.datastores.objects.network import client_options, retry_config
from runyard.datastores.objects.places import Place, place_of
from runyard.errors import InvalidArgument
from runyard.model.data import NetworkRules, StoreAccess
from runyard.web.guard import check_endpoint

if TYPE_CHECKING:
    from obstore.store import AzureConfig, GCSConfig, S3Credential

Client = AzureStore | GCSStore | S3Store


def connect(access: StoreAccess, rules: NetworkRules) -> tuple[Client, Place]:
    """Make the client. Raises InvalidArgument for a wrong or missing setting, AccessDenied for a forbidden address."""
    endpoint_of, client_of = _KINDS[access.kind]
    location = place_of(access, endpoint_of(access.options))
    check_endpoint(location.endpoint, rules)
    try:
        return client_of(location, access, rules), location
    except (BaseError, ValueError):
        problem = f"The settings or credentials of {location.shown} cannot be used."
    # Raised outside the handler: the text of obstore's error may hold a part of the credential.
    raise InvalidArgument(problem, hint="Check that the credential was copied whole, and register the datastore again.")


def _s3(location: Place, access: StoreAccess, rules: NetworkRules) -> Client:
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


def _azure(location: Place, access: StoreAccess, rules: NetworkRules) -> Client:
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


def _gcs(location: Place, access: StoreAccess, rules: NetworkRules) -> Client:
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
    str, tuple[Callable[[Mapping[str, str]], str], Callable[[Place, StoreAccess, NetworkRules], Client]]
] = {"azure": (azure_endpoint, _azure), "gcs": (gcs_endpoint, _gcs), "s3": (s3_endpoint, _s3)}
