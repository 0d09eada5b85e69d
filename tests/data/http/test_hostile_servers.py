import socket
import time

import pytest

from runyard.core.errors import DataFailed, Unreachable
from tests.data.http.servers import a_file, raw, status

START = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
LIMIT_SECONDS = 5.0
"""Far above the silence and retry times of these stores, far below a hang."""


@pytest.fixture(autouse=True)
def in_time():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < LIMIT_SECONDS


def _all_ways(web, fetched, url):
    return [lambda: web.stat(url), lambda: web.read(url, 0, 1000), lambda: fetched(web, url)]


def test_a_server_that_says_nothing_is_left(server, web, fetched):
    server.pages["/a"] = lambda line, asked: line.stay_silent()
    for ask in _all_ways(web, fetched, f"{server.url}/a"):
        with pytest.raises(Unreachable, match=r"/a could not be read: nothing came from the server for 0\.3 seconds"):
            ask()


def test_a_server_that_falls_silent_within_a_body_is_left(server, web, fetched):
    def half(line, asked):
        line.send(START + b"half")
        line.stay_silent()

    server.pages["/a"] = half
    with pytest.raises(Unreachable, match="nothing came"):
        fetched(web, f"{server.url}/a")


def test_a_host_that_does_not_accept_is_left(web):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        place = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(place)
        with pytest.raises(Unreachable, match="could not be connected to"):
            web.stat(f"http://127.0.0.1:{place[1]}/a")
        for each in waiting:
            each.close()


@pytest.mark.parametrize("start", [START, b"HTTP/1.0 200 OK\r\n\r\n"])
def test_a_body_in_drops_is_left(server, web, fetched, start):
    def drip(line, asked):
        line.send(start)
        line.drip(b"x", 0.02)

    server.pages["/a"] = drip
    with pytest.raises(Unreachable, match=r"only .* bytes came from the server"):
        fetched(web, f"{server.url}/a")


def test_chunks_in_drops_are_left(server, web, fetched):
    def drip(line, asked):
        line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        line.drip(b"1\r\nx\r\n", 0.02)

    server.pages["/a"] = drip
    with pytest.raises(Unreachable, match=r"only .* bytes came from the server"):
        fetched(web, f"{server.url}/a")


@pytest.mark.parametrize("piece", [b"X-Drop: 1\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"])
def test_a_head_in_drops_is_left(server, web, piece):
    def drip(line, asked):
        line.send(b"HTTP/1.1 102 Processing\r\n\r\n" if b"103" in piece else b"HTTP/1.1 200 OK\r\n")
        line.drip(piece, 0.02)

    server.pages["/a"] = drip
    with pytest.raises(Unreachable, match="/a could not be read"):
        web.stat(f"{server.url}/a")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5e3\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02F\r\n\r\n",
        b"",
    ],
)
def test_what_is_no_answer_is_said(server, open_web, fetched, head):
    server.pages["/a"] = raw(head)
    impatient = open_web(retry_seconds=0.05)
    for ask in _all_ways(impatient, fetched, f"{server.url}/a"):
        with pytest.raises(Unreachable, match="/a could not be read"):
            ask()


def test_a_length_that_nothing_can_have_is_not_told_on(server, open_web):
    server.pages["/a"] = raw(b"HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nContent-Length: " + b"9" * 20 + b"\r\n\r\n")
    assert open_web(retry_seconds=0.05).stat(f"{server.url}/a").size is None


def test_a_head_that_passes_the_limit_with_its_last_piece_is_refused(server, open_web, fetched):
    def in_two_pieces(line, asked):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: " + b"x" * 60_000)
        line.ending.wait(0.05)
        line.send(b"x" * 10_000 + b"\r\n\r\n")

    server.pages["/a"] = in_two_pieces
    impatient = open_web(retry_seconds=0.05)
    for ask in _all_ways(impatient, fetched, f"{server.url}/a"):
        with pytest.raises(Unreachable, match="headers of more than 64 KiB"):
            ask()


def test_a_redirect_is_followed_to_its_end(server, web, fetched):
    server.pages["/a"] = a_file(b"hello")
    server.pages["/b c"] = status(404)
    server.pages["/far"] = status(301, Location="near?x=1")
    server.pages["/near"] = status(307, Location=f"{server.url}/a")
    assert fetched(web, f"{server.url}/far") == b"hello"
    assert web.stat(f"{server.url}/far").path == f"{server.url}/far"
    assert server.connections == 1


def test_a_redirect_loop_ends(server, open_web, fetched):
    server.pages["/a"] = status(302, Location="/a?again")
    web = open_web(max_redirects=3)
    for ask in _all_ways(web, fetched, f"{server.url}/a?sig=secret"):
        server.asked.clear()
        with pytest.raises(DataFailed, match="/a redirects more than 3 times") as failure:
            ask()
        assert len(server.asked) == 4
        assert "again" not in str(failure.value)


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://data/x", "http://u:p@data/x", "//[x/", "gopher:x"])
def test_a_redirect_off_the_web_is_refused(server, web, fetched, place):
    server.pages["/a"] = status(302, Location=place)
    for ask in _all_ways(web, fetched, f"{server.url}/a"):
        with pytest.raises(DataFailed, match="/a redirects to an address that cannot be followed"):
            ask()
