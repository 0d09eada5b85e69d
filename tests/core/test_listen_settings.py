import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.listen_settings import ListenAddress, is_loopback, matches_name
from runyard.core.settings import read_settings

TLS = {"RUNYARD_TLS_CERT": "/c.pem", "RUNYARD_TLS_KEY": "/k.pem"}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8443", "127.0.0.1", 8443),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("[::]:8443", "::", 8443),
        ("train-1.example:443", "train-1.example", 443),
        ("localhost:65535", "localhost", 65535),
    ],
)
def test_a_host_and_a_port_are_listened_on(text, host, port):
    settings = read_settings({"RUNYARD_LISTEN": text, **TLS})
    assert settings.listen is not None
    assert (settings.listen.host, settings.listen.port) == (host, port)
    assert settings.listen.address == text


@pytest.mark.parametrize(
    "text",
    [
        "8443",
        ":8443",
        "host",
        "host:",
        "host:x",
        "host:-1",
        "host:65536",
        "host:٣",
        "::1:8443",
        "[::1]",
        "[train]:1",
        "a b:1",
        "a\0b:1",
        "-x:1",
        "a..b:1",
        "https://host:1",
        "fe80::1%eth0:1",
        "x" * 300 + ":1",
        ("a" * 60 + "-") * 20 + ":1",
    ],
)
def test_what_is_no_host_and_port_is_refused_by_the_options_name(text):
    with pytest.raises(InvalidArgument, match="--listen"):
        read_settings({"RUNYARD_LISTEN": text, **TLS})


def test_nothing_leaves_this_machine_unencrypted_unless_that_is_said():
    for host in ("0.0.0.0:1", "[::]:1", "10.0.0.5:1", "train.example:1", "127.example:1"):
        with pytest.raises(InvalidArgument, match="unencrypted") as refused:
            read_settings({"RUNYARD_LISTEN": host})
        assert "--no-tls" in refused.value.hint
        assert "--tls-cert" in refused.value.hint
        assert read_settings({"RUNYARD_LISTEN": host, "RUNYARD_NO_TLS": "1"}).listen is not None
    assert read_settings({"RUNYARD_LISTEN": "127.0.0.1:1"}).listen == ListenAddress("127.0.0.1", 1)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"RUNYARD_LISTEN": "x:1", "RUNYARD_TLS_CERT": "/c"}, "--tls-key"),
        ({"RUNYARD_LISTEN": "x:1", "RUNYARD_TLS_KEY": "/k"}, "--tls-cert"),
        (TLS, "--listen"),
        ({"RUNYARD_LISTEN": "x:1", "RUNYARD_NO_TLS": "1", **TLS}, "--no-tls"),
        ({"RUNYARD_NO_TLS": "yes"}, "RUNYARD_NO_TLS"),
        ({"RUNYARD_PUBLIC_URL": "train.example"}, "RUNYARD_PUBLIC_URL"),
        ({"RUNYARD_PUBLIC_URL": "https://u:p@train.example"}, "RUNYARD_PUBLIC_URL"),
        ({"RUNYARD_PUBLIC_URL": "https://train.example:0"}, "RUNYARD_PUBLIC_URL"),
        ({"RUNYARD_PUBLIC_URL": "https://[bad"}, "RUNYARD_PUBLIC_URL"),
        ({"RUNYARD_CA": "/not/there"}, "RUNYARD_CA"),
        ({"RUNYARD_VM_SIZES": "/not/there.toml"}, "RUNYARD_VM_SIZES"),
        ({"RUNYARD_NETWORK": "bridge"}, "RUNYARD_NETWORK"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(variables, named):
    with pytest.raises(InvalidArgument, match=named):
        read_settings(variables)


def test_an_engine_and_its_settings_are_taken(tmp_path):
    sizes = tmp_path / "sizes.toml"
    sizes.write_text("")
    settings = read_settings(
        {
            "RUNYARD_ENGINE": "ray",
            "RUNYARD_RAY_ADDRESS": " head:6379 ",
            "RUNYARD_VM_SIZES": str(sizes),
            "RUNYARD_NETWORK": "host",
        }
    )
    assert (settings.engine, settings.vm_sizes, settings.network) == ("ray", sizes, "host")
    assert settings.variables["RUNYARD_RAY_ADDRESS"] == " head:6379 "


def test_a_service_that_others_reach_is_not_one_of_this_machine_alone():
    assert read_settings({}).is_loopback
    assert read_settings({"RUNYARD_LISTEN": "127.0.0.1:1"}).is_loopback
    opened = read_settings({"RUNYARD_LISTEN": "0.0.0.0:1", **TLS})
    assert not opened.is_loopback
    assert not opened.allow_private_addresses


def test_loopback_is_told_by_the_address_not_by_how_a_name_begins():
    assert all(is_loopback(host) for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1"))
    assert not any(is_loopback(host) for host in ("127.0.0.1.evil.example", "127.evil", "0.0.0.0", "", "::"))


def test_a_star_in_a_certificate_stands_for_one_label():
    assert matches_name("a.example", "*.example")
    assert matches_name("A.Example.", "a.example")
    assert not matches_name("a.b.example", "*.example")
    assert not matches_name("example", "*.example")
