import base64
import html
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from runyard.core.url_secrets import redacted

PAGE = "text/html; charset=utf-8"


@dataclass(frozen=True)
class IndexResponse:
    """Response to a request for packages. The receiver closes `content`."""

    status: int
    content: IO[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


def html_response(text: str, status: int = 200) -> IndexResponse:
    content = text.encode("utf-8", "surrogateescape")
    return IndexResponse(status, BytesIO(content), {"Content-Type": PAGE, "Content-Length": str(len(content))})


SILENT_SECONDS = 60.0
LARGEST_PAGE = 64 * 2**20
ELSEWHERE = "@"
"""First segment of a path that links to another address; the whole quoted address follows."""
METADATA = ".metadata"
_LINK = re.compile(
    r"""(?P<before><a\s(?>[^<>]*?\bhref\s*+=\s*+))(?:"(?P<link>[^"]*+)"|'(?P<single>[^']*+)')""",
    re.I,
)
_PASSED_ON = ("Content-Type", "Content-Length", "ETag", "Last-Modified")
HttpOrigin = tuple[str, str, int | None]


class PackageIndex:
    """Forwards requests to a package index, with the login of its address and the certificates of `context`.

    Links in its pages are rewritten to lead through the proxy. The login is sent only to the index's own server.
    """

    def __init__(self, address: str, context: ssl.SSLContext, proxies: Mapping[str, str]) -> None:
        parts = urlsplit(address)
        login, _, host = parts.netloc.rpartition("@")
        self._address = parts._replace(netloc=host, fragment="")
        self._login = base64.b64encode(_login(login).encode()).decode() if login else ""
        self._context, self._proxies = context, proxies

    def answer(self, path: str, method: str, own: str) -> IndexResponse:
        """Respond to a request for a `path` below the index; rewritten links start with `own`."""
        url = self._url(path)
        if urlsplit(url).scheme not in ("http", "https"):
            return html_response("not here", 404)
        try:
            found = self._open(url, method)
        except HTTPError as refused:
            refused.close()
            return html_response(f"{redacted(url)}: {refused.code} {refused.reason}", refused.code)
        except (URLError, HTTPException, OSError, ValueError) as error:
            return html_response(f"{redacted(url)} cannot be asked: {getattr(error, 'reason', error)}", 502)
        if method == "GET" and "html" in found.headers.get("Content-Type", ""):
            with found:
                return html_response(self._rewritten(found.read(LARGEST_PAGE), found.url, own))
        return IndexResponse(200, found, {name: found.headers[name] for name in _PASSED_ON if found.headers[name]})

    def authorization(self, url: str) -> dict[str, str]:
        """Headers with the login, if the URL is on the index's own server."""
        is_own = _origin(urlsplit(url)) == _origin(self._address)
        return {"Authorization": f"Basic {self._login}"} if self._login and is_own else {}

    def _url(self, path: str) -> str:
        first, _, rest = path.partition("/")
        if first == ELSEWHERE:
            quoted, _, name = rest.partition("/")
            url = unquote(quoted)
            is_metadata = name.endswith(METADATA) and not urlsplit(url).path.endswith(METADATA)
            return f"{url}{METADATA}" if is_metadata else url
        if not path:
            return urlunsplit(self._address)
        return urlunsplit(self._address._replace(path=f"{self._address.path.rstrip('/')}/{path}", query=""))

    def _open(self, url: str, method: str) -> HTTPResponse:
        opener = OpenerDirector()
        for handler in (
            ProxyHandler(self._proxies_for(url)),
            HTTPHandler(),
            HTTPSHandler(context=self._context),
            HTTPDefaultErrorHandler(),
            HTTPErrorProcessor(),
            _Redirects(self),
        ):
            opener.add_handler(handler)
        request = Request(url, headers={"Accept": "text/html, */*;q=0.5"}, method=method)
        for name, value in self.authorization(url).items():
            request.add_unredirected_header(name, value)
        found: HTTPResponse = opener.open(request, timeout=SILENT_SECONDS)
        return found

    def _proxies_for(self, url: str) -> dict[str, str]:
        host = f".{urlsplit(url).hostname}"
        direct_hosts = [name.strip().lstrip(".") for name in self._proxies.get("no", "").split(",") if name.strip()]
        is_direct = "*" in direct_hosts or any(host.endswith(f".{name}") for name in direct_hosts)
        return {} if is_direct else {kind: proxy for kind, proxy in self._proxies.items() if kind != "no"}

    def _rewritten(self, text: bytes, url: str, own: str) -> str:
        def rewrite(found: re.Match[str]) -> str:
            target = urlsplit(urljoin(url, html.unescape(found["link"] or found["single"] or "")))
            bare, name = urlunsplit(target._replace(fragment="")), target.path.rpartition("/")[2]
            fragment = f"#{target.fragment}" if target.fragment else ""
            link = f"{own}/{ELSEWHERE}/{quote(bare, safe='')}/{quote(unquote(name))}{fragment}"
            return f'{found["before"]}"{html.escape(link)}"'

        return _LINK.sub(rewrite, text.decode("utf-8", "surrogateescape"))


class _Redirects(HTTPRedirectHandler):
    """Sends the login only on redirects within the same server."""

    def __init__(self, index: PackageIndex) -> None:
        self._index = index

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        again = super().redirect_request(req, fp, code, msg, headers, newurl)
        if again is not None:
            again.method = req.get_method()
            for name, value in self._index.authorization(newurl).items():
                again.add_unredirected_header(name, value)
        return again


def _login(text: str) -> str:
    user, _, password = text.partition(":")
    return f"{unquote(user)}:{unquote(password)}"


def _origin(parts: SplitResult) -> HttpOrigin:
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


PACKAGES = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".egg")
INDEX = "index.html"


@dataclass(frozen=True)
class PackageFolder:
    """Serves a local folder of packages as pages of links. Serves no files but packages."""

    folder: Path

    def answer(self, path: str, method: str, own: str) -> IndexResponse:
        """Respond to a request for a `path` in the folder."""
        top = self.folder.resolve()
        wanted = (top / unquote(path)).resolve()
        if not wanted.is_relative_to(top):
            return html_response("not here", 404)
        if wanted.is_dir():
            index = wanted / INDEX
            return _file(index, PAGE) if _is_below(index, top) else html_response(_links(wanted))
        if wanted.name.endswith(PACKAGES) and wanted.is_file():
            return _file(wanted, "application/octet-stream")
        return html_response("not here", 404)


def _is_below(file: Path, top: Path) -> bool:
    return file.is_file() and file.resolve().is_relative_to(top)


def _file(file: Path, kind: str) -> IndexResponse:
    content = file.open("rb")
    return IndexResponse(200, content, {"Content-Type": kind, "Content-Length": str(file.stat().st_size)})


def _links(folder: Path) -> str:
    names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in sorted(folder.iterdir())]
    rows = (f'<a href="{quote(name)}">{escape(name)}</a>' for name in names if name.endswith((*PACKAGES, "/")))
    return "<!DOCTYPE html>\n" + "<br>\n".join(rows)
