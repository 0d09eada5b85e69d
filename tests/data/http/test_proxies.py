import base64

import pytest

from runyard.core.errors import AccessDenied, InvalidArgument, Unreachable
from runyard.data.http.addresses import parse_address
from runyard.data.http.proxies import Proxies
from tests.data.http.servers import a_file, status

OUTSIDE = "http://data.invalid/a"


def test_the_proxy_is_asked_for_the_whole_address(server, open_web):
    server.pages["*"] = a_file(b"hello")
    web = open_web(variables={"http_proxy": server.url})
    assert bytes(web.read(f"{OUTSIDE}?x=1", 0, 5)) == b"hello"
    assert bytes(web.read("http://data.invalid/b", 0, 5)) == b"hello"
    assert server.targets() == [f"{OUTSIDE}?x=1", "http://data.invalid/b"]
    assert server.asked[0].headers["host"] == "data.invalid"
    assert server.connections == 1


def test_the_login_of_a_proxy_is_given_to_it_and_never_told(server, open_web):
    def guarded(line, asked):
        line.answer(407 if "bad" in asked.target else 200, b"hello")

    server.pages["*"] = guarded
    web = open_web(variables={"HTTP_PROXY": server.url.replace("//", "//ada:p%40ss@")})
    assert bytes(web.read(OUTSIDE, 0, 5)) == b"hello"
    assert base64.b64decode(server.asked[0].headers["proxy-authorization"].removeprefix("Basic ")) == b"ada:p@ss"
    with pytest.raises(AccessDenied, match=r"the proxy 127\.0\.0\.1:\d+ answers 407") as failure:
        web.read("http://bad.invalid/a", 0, 5)
    assert not {"ada", "p@ss", "p%40ss"} & set(str(failure.value).split())


def test_the_login_of_a_proxy_is_not_given_to_a_server(server, open_web):
    server.pages["/a"] = a_file(b"hello")
    web = open_web(variables={"http_proxy": "http://ada:secret@127.0.0.1:9", "no_proxy": "127.0.0.1"})
    assert bytes(web.read(f"{server.url}/a", 0, 5)) == b"hello"
    assert "proxy-authorization" not in server.asked[0].headers


def test_a_tunnel_that_is_refused_is_said(server, open_web):
    server.pages["*"] = status(407)
    web = open_web(variables={"https_proxy": server.url.replace("//", "//ada:secret@")})
    with pytest.raises(AccessDenied, match=r"the proxy 127\.0\.0\.1:\d+ answers 407") as failure:
        web.stat("https://data.invalid/a")
    assert "secret" not in str(failure.value)
    assert server.asked[0].target == "data.invalid:443"


def test_a_proxy_that_does_not_listen_is_said(open_web):
    with pytest.raises(Unreachable, match="Connection refused"):
        open_web(variables={"http_proxy": "http://127.0.0.1:9"}).stat(OUTSIDE)


def test_a_proxy_on_a_shared_server_is_the_operators_choice(server, open_web):
    server.pages["*"] = a_file(b"hello")
    shared = open_web(allow_private=False, variables={"http_proxy": server.url})
    assert bytes(shared.read("http://8.8.8.8/a", 0, 5)) == b"hello"
    with pytest.raises(AccessDenied, match="not a public address"):
        shared.read("http://127.0.0.1/a", 0, 5)


def test_a_proxy_at_a_link_local_address_is_refused(open_web):
    with pytest.raises(AccessDenied, match="never read"):
        open_web(variables={"http_proxy": "http://169.254.169.254:80"}).stat(OUTSIDE)


@pytest.mark.parametrize("value", ["socks5://127.0.0.1:1080", "http://", "http://host:port", "//u:secret@[x"])
def test_a_proxy_that_cannot_be_used_is_said(open_web, value):
    with pytest.raises(InvalidArgument, match="http_proxy names no proxy that can be used") as failure:
        open_web(variables={"http_proxy": value})
    assert "secret" not in str(failure.value)


@pytest.mark.parametrize(
    ("exceptions", "url", "is_excepted"),
    [
        ("*", "http://a.org/x", True),
        ("a.org", "http://a.org/x", True),
        ("a.org", "http://data.a.org/x", True),
        (".a.org", "http://data.a.org/x", True),
        ("*.a.org", "http://data.a.org/x", True),
        ("A.ORG", "http://a.org/x", True),
        ("a.org", "http://aa.org/x", False),
        ("b.org, a.org:8080", "http://a.org:8080/x", True),
        ("a.org:8080", "http://a.org/x", False),
        ("10.0.0.0/8", "http://10.1.2.3/x", True),
        ("10.0.0.0/8", "http://11.1.2.3/x", False),
        ("10.0.0.0/8", "http://a.org/x", False),
        ("::1", "http://[::1]/x", True),
        ("", "http://a.org/x", False),
    ],
)
def test_no_proxy_names_who_is_asked_directly(exceptions, url, is_excepted):
    proxies = Proxies({"http_proxy": "proxy:3128", "no_proxy": exceptions})
    assert (proxies.find(parse_address(url)) is None) == is_excepted


def test_the_lower_case_spelling_wins_and_each_scheme_has_its_own():
    proxies = Proxies({"HTTP_PROXY": "http://upper:1", "http_proxy": "http://lower:2", "ALL_PROXY": "http://all:3"})
    assert str(proxies.find(parse_address("http://a.org/"))) == "Proxy(lower:2)"
    assert str(proxies.find(parse_address("https://a.org/"))) == "Proxy(all:3)"
