import pytest

from runyard.core.errors import AccessDenied
from runyard.core.records.data import NetworkRules
from runyard.data.http.address_guard import check_endpoint, why_refused
from tests.data.http.servers import a_file, status

SHARED, LAPTOP = NetworkRules(allow_private=False), NetworkRules(allow_private=True)
PRIVATE_HOSTS = [
    "127.0.0.1", "127.1", "127.255.255.254", "localhost", "0", "0.0.0.0", "2130706433", "0x7f000001", "0177.0.0.1",
    "0x7f.1", "017700000001", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "224.0.0.1",
    "255.255.255.255", "240.0.0.1",
    "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::10.0.0.1]", "[2002:7f00:1::]",
    "[fd00::1]", "[fec0::1]", "[ff02::1]",
]  # fmt: skip
NEVER = [
    "169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.1", "[fe80::1]",
    "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]",
    "100.100.100.200", "168.63.129.16",
]  # fmt: skip


@pytest.mark.parametrize("host", PRIVATE_HOSTS)
def test_a_private_address_needs_the_operator(host):
    with pytest.raises(AccessDenied, match=r"may not be read: .* is not a public address"):
        check_endpoint(f"http://{host}:8080/x", SHARED)
    check_endpoint(f"http://{host}:8080/x", LAPTOP)


@pytest.mark.parametrize("rules", [SHARED, LAPTOP], ids=["shared", "laptop"])
@pytest.mark.parametrize("host", NEVER)
def test_the_metadata_of_a_cloud_is_never_read(host, rules, open_web):
    with pytest.raises(AccessDenied, match="never read"):
        check_endpoint(f"http://{host}/latest", rules)
    with pytest.raises(AccessDenied, match="never read"):
        open_web(allow_private=rules.allow_private).stat(f"http://{host}/latest")


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_a_public_address_is_allowed(address):
    assert why_refused(address, SHARED) == ""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0"])
def test_nothing_is_sent_to_a_private_address_on_a_shared_server(server, open_web, fetched, host):
    server.pages["/a"] = a_file(b"secret")
    shared, url = open_web(allow_private=False), f"http://{host}:{server.port}/a?sig=secret"
    for ask in (shared.stat, lambda url: shared.read(url, 0, 5), lambda url: fetched(shared, url)):
        with pytest.raises(AccessDenied, match="not a public address") as failure:
            ask(url)
        assert "secret" not in str(failure.value)
    assert (server.connections, server.asked) == (0, [])


def test_a_name_that_means_loopback_is_read_on_a_laptop(server, web):
    server.pages["/a"] = a_file(b"hello")
    assert bytes(web.read(f"http://localhost:{server.port}/a", 0, 5)) == b"hello"


def test_a_redirect_to_link_local_is_refused(server, web):
    server.pages["/a"] = status(302, Location="http://169.254.169.254/latest/meta-data")
    with pytest.raises(AccessDenied, match=r"169\.254\.169\.254 is a link-local address"):
        web.stat(f"{server.url}/a")


@pytest.mark.parametrize("is_direct", [True, False])
def test_a_redirect_from_outside_to_a_private_address_is_refused(server, open_web, is_direct):
    server.pages["*"] = status(302, Location=f"{server.url}/inside")
    variables = {"http_proxy": server.url, "no_proxy": "127.0.0.1" if is_direct else ""}
    shared = open_web(allow_private=False, variables=variables)
    with pytest.raises(AccessDenied, match=r"127\.0\.0\.1 is not a public address"):
        shared.stat("http://8.8.8.8/outside")
    assert server.targets("HEAD") == ["http://8.8.8.8/outside"]


def test_an_endpoint_without_a_host_is_left_to_its_client():
    check_endpoint("https://store.invalid", SHARED)
