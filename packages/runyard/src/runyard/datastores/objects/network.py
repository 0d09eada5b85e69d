import base64
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from runyard.datastores.objects.gate import gate_for
from runyard.errors import AccessDenied, DataFailed
from runyard.model.data import NetworkRules
from runyard.web.addresses import Address, parse_address
from runyard.web.proxies import Proxies, Proxy

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_WHOLE_TRANSFER = timedelta(days=7)
_FIRST_PAUSE = timedelta(milliseconds=50)
_LONGEST_PAUSE = timedelta(seconds=2)
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
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
    bundle = _certificates_file(rules.variables)
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
    return {"proxy_url": gate_for(rules).url, "proxy_excludes": ""}


def retry_config(rules: NetworkRules) -> "RetryConfig":
    return {
        "max_retries": 1_000_000,  # retry_timeout is the limit
        "retry_timeout": timedelta(seconds=rules.retry_seconds),
        "backoff": {"init_backoff": _FIRST_PAUSE, "max_backoff": _LONGEST_PAUSE, "base": 2},
    }


def _certificates_file(variables: Mapping[str, str]) -> Path | None:
    """CA bundle that the variables name. A folder is ignored: the certificates of the system are trusted anyway."""
    name = next((name for name in _BUNDLES if variables.get(name)), "")
    return Path(variables[name]) if name and not Path(variables[name]).is_dir() else None


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
