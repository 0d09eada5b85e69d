import base64
import errno
import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from runyard.errors import DataFailed
from runyard.planning.data_layout import shown

TRIES = 3
TIMEOUT_SECONDS = 60
CHUNK_BYTES = 1024 * 1024
BROKEN = (OSError, http.client.HTTPException, EOFError)


@dataclass(frozen=True)
class Fetched:
    """What the server said about the bytes that were written."""

    size: int
    sha256: str
    etag: str = ""
    last_modified: str = ""


class Web:
    """Reads web addresses with the submitter's proxies and certificates, and no other setting of this process."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            _Proxies(variables),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(context=_certificates(variables)),
            _WebRedirects(),
            urllib.request.HTTPErrorProcessor(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.UnknownHandler(),
        ):
            self._opener.add_handler(handler)

    def fetch(self, url: str, target: Path, known: Fetched | None, say: Callable[[str], None]) -> Fetched | None:
        """Write the address's bytes to `target`; None when they are still those of `known`.
        A broken transfer is taken up where it broke. DataFailed after three tries."""
        transfer = _Transfer(target)
        for left in reversed(range(TRIES)):
            try:
                return self._once(url, transfer, known)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == 304 and known:
                        return None
                    if left == 0 or (error.code < 500 and error.code not in (408, 416, 429)):
                        raise _failed(url, f"the server answers {error.code} {error.reason}") from error
                    transfer.restart()
                    say(f"{shown(url)}: {error.code} {error.reason}; trying again.")
            except BROKEN as error:
                if _is_local(error):
                    raise _failed(url, f"it cannot be written to {target.parent}: {error}") from error
                if left == 0:
                    raise _failed(url, str(getattr(error, "reason", "") or error or type(error).__name__)) from error
                say(f"{shown(url)}: {error}; trying again after {transfer.size} bytes.")
        raise AssertionError("unreachable")

    def _once(self, url: str, transfer: "_Transfer", known: Fetched | None) -> Fetched:
        headers = {"Accept-Encoding": "identity", "User-Agent": "runyard", **transfer.resume_headers()}
        if known and not transfer.size:
            conditions = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
            headers.update({name: value for name, value in conditions.items() if value})
        request = urllib.request.Request(url, headers=headers)
        with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return transfer.take(answer)


class _Transfer:
    """The bytes got so far, over one or more answers."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._validator = ""
        self.restart()

    def restart(self) -> None:
        self.size, self._hash = 0, hashlib.sha256()

    def resume_headers(self) -> dict[str, str]:
        if not self.size or not self._validator:
            return {}
        return {"Range": f"bytes={self.size}-", "If-Range": self._validator}

    def take(self, answer: Any) -> Fetched:
        if answer.status != 206:
            self.restart()
        etag, modified = answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")
        self._validator = etag if etag and not etag.startswith("W/") else modified
        length = answer.headers.get("Content-Length", "")
        expected = self.size + int(length) if length.isdigit() else None
        with self._target.open("ab" if self.size else "wb") as file:
            while chunk := answer.read(CHUNK_BYTES):
                file.write(chunk)
                self._hash.update(chunk)
                self.size += len(chunk)
        if expected is not None and self.size != expected:
            raise EOFError(f"the transfer ended after {self.size} of {expected} bytes")
        return Fetched(self.size, self._hash.hexdigest(), etag, modified)


class _Proxies(urllib.request.BaseHandler):
    """Sets the proxy of every request, redirected ones too."""

    handler_order = 100

    def __init__(self, variables: Mapping[str, str]) -> None:
        lower = {name.lower(): value for name, value in sorted(variables.items()) if name.lower().endswith("_proxy")}
        self._proxies = {name.removesuffix("_proxy"): value for name, value in lower.items() if value}

    def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
        proxy = self._proxies.get(request.type) or self._proxies.get("all")
        bypassed = urllib.request.proxy_bypass_environment(request.host, {"no": self._proxies.get("no", "")})  # type: ignore[attr-defined]
        if proxy and not bypassed:
            login, _, host = urlsplit(proxy if "//" in proxy else f"//{proxy}").netloc.rpartition("@")
            if login:
                secret = base64.b64encode(unquote(login).encode()).decode("ascii")
                request.add_header("Proxy-Authorization", f"Basic {secret}")
            request.set_proxy(host, request.type)
        return request

    https_request = http_request


class _WebRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise urllib.error.HTTPError(req.full_url, 403, f"redirected to {shown(newurl)!r}", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _certificates(variables: Mapping[str, str]) -> ssl.SSLContext:
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    file = next((variables[name] for name in names if variables.get(name)), None)
    try:
        return ssl.create_default_context(cafile=file, capath=variables.get("SSL_CERT_DIR") or None)
    except (OSError, ssl.SSLError) as error:
        raise DataFailed(f"The certificates in {file!r} cannot be read: {error}.", hint="Set SSL_CERT_FILE.") from error


def _is_local(error: BaseException) -> bool:
    """Whether writing failed, not reading: no other try will help."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


def _failed(url: str, why: str) -> DataFailed:
    return DataFailed(
        f"{shown(url)} could not be fetched: {why}.", hint="Check the address, the proxy settings and the disk."
    )
