import pytest

from runyard.core.errors import InvalidArgument
from runyard.data.http.addresses import parse_address
from tests.data.http.servers import a_file


@pytest.mark.parametrize(
    "url",
    [
        "", "data/a.csv", "/etc/passwd", "file:///etc/passwd", "ftp://a.org/x", "http://", "https:///x", "http:/a.org",
        "http://a.org:0x50/x", "http://a.org:99999/x", "http://[::1/x", "http://[fe80::1%25eth0]/x", "http://a b/x",
        "http://a\\b/x", "http://a.org/x\r\nHost: b", "http://a.org/\0", "http://a.org/\udc80", "http://\udc80/",
        "http://" + "a" * 300 + "/x", "http://a..b/x",
    ],
)  # fmt: skip
def test_what_is_no_web_address_is_refused(url):
    with pytest.raises(InvalidArgument, match="web address"):
        parse_address(url)


@pytest.mark.parametrize("url", ["http://ada:secret@a.org/x", "http://secret@a.org", "https://a:secret@b@c/x?secret"])
def test_credentials_in_an_address_are_refused_and_not_repeated(url):
    with pytest.raises(InvalidArgument, match="holds a user name or password") as failure:
        parse_address(url)
    assert "secret" not in str(failure.value)


def test_an_address_that_is_too_long_is_refused_in_few_words():
    with pytest.raises(InvalidArgument, match="at most 8192 characters, got 10013") as failure:
        parse_address("http://a.org/" + "x" * 10_000)
    assert len(str(failure.value)) < 200


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://a.org", "/"),
        ("http://a.org?x=1", "/?x=1"),
        ("http://a.org/a b/ä.csv", "/a%20b/%C3%A4.csv"),
        ("http://a.org/a%20b?sig=a%2Fb+c", "/a%20b?sig=a%2Fb+c"),
        ("http://a.org/x#part", "/x"),
        ("http://a.org/x?q=ä#part", "/x?q=%C3%A4"),
        ("http://a.org/" + "x" * 5000, "/" + "x" * 5000),
    ],
)
def test_an_address_is_quoted_where_it_must_be(url, target):
    assert parse_address(url).target == target


def test_hosts_are_told_apart_by_what_is_connected_to():
    assert parse_address("HTTP://BÜCHER.example:8080/x").authority == "xn--bcher-kva.example:8080"
    assert parse_address("https://a.org:443/x").authority == "a.org"
    assert parse_address("http://[::FFFF:1.2.3.4]:81/x").authority == "[::ffff:102:304]:81"


def test_files_lie_below_a_base_address(server, open_web):
    server.pages["/data/a%20b%3F/%25c.csv"] = a_file(b"hello")
    for base in (f"{server.url}/data", f"{server.url}/data/"):
        store = open_web(base)
        assert store.stat("a b?/%c.csv").path == "a b?/%c.csv"
        assert bytes(store.read("a b?/%c.csv", 0, 5)) == b"hello"


@pytest.mark.parametrize("path", ["", "/a", "../a", "a/../../b", "a//b", "./a", "a/", "a\0b", "x" * 9000, "\udc80"])
def test_a_path_that_leaves_the_base_is_refused(server, open_web, path):
    store = open_web(f"{server.url}/data")
    for ask in (store.stat, lambda path: store.read(path, 0, 5)):
        with pytest.raises(InvalidArgument, match="is no path of a file below"):
            ask(path)
    assert server.asked == []


def test_a_path_is_never_taken_for_another_address(server, open_web):
    with pytest.raises(InvalidArgument):
        open_web(f"{server.url}/data").stat("http://169.254.169.254/x")


def test_a_newline_in_a_path_is_part_of_its_name(server, open_web):
    server.pages["/data/a%0D%0Ab"] = a_file(b"hello")
    assert open_web(f"{server.url}/data").stat("a\r\nb").size == 5


@pytest.mark.parametrize("base", ["http://a.org/x?sig=secret", "http://u:secret@a.org/", "s3://bucket"])
def test_a_base_that_is_no_plain_address_is_refused(open_web, base):
    with pytest.raises(InvalidArgument) as failure:
        open_web(base)
    assert "secret" not in str(failure.value)


def test_a_base_cannot_be_listed_and_an_address_lists_itself(server, open_web):
    server.pages["/a"] = a_file(b"hello")
    with pytest.raises(InvalidArgument, match="web datastores have no listing"):
        open_web(server.url).list("a")
    assert [file.size for file in open_web().list(f"{server.url}/a")] == [5]


def test_a_store_is_known_by_its_base_however_that_is_written(open_web):
    assert open_web("HTTP://A.org:80/data").identity == open_web("http://a.org/data/").identity
    assert len({open_web(base).identity for base in ("", "http://a.org/", "http://a.org/data", "https://a.org/")}) == 4


def test_nothing_is_written_to_the_web(server, open_web, tmp_path):
    store = open_web(server.url)
    assert (store.is_writable, store.local_root) == (False, None)
    with pytest.raises(InvalidArgument, match="can only be read"):
        store.put("a", tmp_path / "a", overwrite=True, progress=lambda count: None)
    with pytest.raises(InvalidArgument, match="can only be read"):
        store.delete("a")
    assert server.asked == []
