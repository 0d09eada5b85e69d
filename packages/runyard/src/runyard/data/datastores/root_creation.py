"""Creation of the folder or container that a datastore is in."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlencode

from runyard.core.disk import disk_errors_explained
from runyard.core.errors import AccessDenied, DataFailed, InvalidArgument, NotYet
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores.objects.location import BucketLocation, azure_endpoint, bucket_location
from runyard.data.http.addresses import parse_address
from runyard.data.http.retries import TransientError

_SIGNATURE_HOLDS = timedelta(hours=1)
_VERSION = "2021-08-06"


def create_root(access: StoreAccess, rules: NetworkRules) -> None:
    """Create the folder or container of `access`, unless it exists. Raises NotYet for the other kinds of stores."""
    if access.kind == "folder":
        with disk_errors_explained(Path(access.root)):
            Path(access.root).mkdir(parents=True, exist_ok=True)
    elif access.kind == "azure":
        _create_container(bucket_location(access, azure_endpoint(access.options)), access, rules)
    else:
        raise NotYet(
            f"Runyard does not make the bucket {access.root.partition('/')[0]!r}.",
            hint="Make it with the tools of its cloud, then register it.",
        )


def _create_container(location: BucketLocation, access: StoreAccess, rules: NetworkRules) -> None:
    query = f"restype=container&{_signature(access)}"
    address = parse_address(f"{location.endpoint}/{quote(location.container, safe='')}?{query}")
    from runyard.data.http import client as http_client  # httpcore, which a service without such a store never loads

    client = http_client.HttpClient(rules)

    def put() -> int:
        with client.ask("PUT", address, [("Content-Length", "0")]) as answer:
            if answer.head.status >= 500:
                raise TransientError(f"it answers {answer.head.status}")
            return answer.head.status

    try:
        status = client.patiently(address, put)
    finally:
        client.close()
    if status not in (201, 409):
        raise _refusal(location, status)


def _signature(access: StoreAccess) -> str:
    """SAS token: the user's own, or one signed with the account key."""
    token = access.secrets.get("sas_token", "").strip().removeprefix("?")
    if token:
        return token
    if not access.secrets.get("account_key"):
        raise NotYet(
            "Runyard makes a container with an account_key or a sas_token alone.",
            hint="Make the container with Azure's tools, then register it without create_if_not_exists.",
        )
    return _signed(access.options.get("account_name", ""), access.secrets["account_key"])


def _signed(account: str, key: str) -> str:
    expiry = (datetime.now(UTC) + _SIGNATURE_HOLDS).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = {"sp": "cw", "ss": "b", "srt": "c", "se": expiry, "spr": "https,http", "sv": _VERSION}
    order = [account, fields["sp"], fields["ss"], fields["srt"], "", expiry, "", fields["spr"], _VERSION, "", ""]
    try:
        digest = hmac.digest(base64.b64decode(key, validate=True), "\n".join(order).encode(), hashlib.sha256)
    except ValueError:
        raise InvalidArgument("account_key is not a key of Azure.", hint="Copy it whole from the portal.") from None
    return urlencode({**fields, "sig": base64.b64encode(digest).decode()})


def _refusal(location: BucketLocation, status: int) -> DataFailed | InvalidArgument:
    if status in (401, 403):
        return AccessDenied(
            f"{location.shown} may not be made with these credentials (status {status}).",
            hint="Check them, or make the container yourself.",
        )
    if status == 400:
        return InvalidArgument(
            f"Azure does not take {location.container!r} as the name of a container.",
            hint="Give 3 to 63 lower-case letters, digits and single '-'.",
        )
    return DataFailed(f"Making {location.shown} was refused (status {status}).")
