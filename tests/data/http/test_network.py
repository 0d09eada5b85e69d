"""Connections that httpcore gets from us: checked where they are made, kept only where nothing is left in them."""

import socket
import subprocess
import sys

import pytest

from runyard.core.errors import AccessDenied
from tests.data.http.servers import Hangup, a_file

EXTRA = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"


def test_the_address_that_passed_the_check_is_the_one_that_is_connected_to(server, open_web, monkeypatch):
    server.pages["/a"] = a_file(b"hello")
    answers = ["127.0.0.1", "169.254.169.254"]
    resolve = socket.getaddrinfo

    def changing(host, *given, **named):
        return resolve(answers.pop(0) if host == "data.test" else host, *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", changing)
    url = f"http://data.test:{server.port}/a"
    web = open_web()
    assert bytes(web.read(url, 0, 5)) == b"hello"
    assert bytes(web.read(url, 1, 3)) == b"ell"
    assert answers == ["169.254.169.254"]
    with pytest.raises(AccessDenied, match=r"169\.254\.169\.254 is a link-local address, which is never read"):
        open_web().read(url, 0, 5)
    assert server.connections == 1


def test_a_name_is_checked_again_for_each_connection(server, open_web, monkeypatch):
    def close_after(line, asked):
        a_file(b"hello", Connection="close")(line, asked)
        raise Hangup

    server.pages["/a"] = close_after
    answers = ["127.0.0.1", "169.254.169.254"]
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *given, **named: resolve(answers.pop(0) if host == "data.test" else host, *given, **named),
    )
    web = open_web()
    assert bytes(web.read(f"http://data.test:{server.port}/a", 0, 5)) == b"hello"
    with pytest.raises(AccessDenied, match="never read"):
        web.read(f"http://data.test:{server.port}/a", 0, 5)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 206 Part\r\nContent-Range: bytes 0-4/5\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 206 Part\r\nContent-Range: bytes 0-4/5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_bytes_after_an_answer_are_not_taken_for_the_next_one(server, web, answer):
    server.pages["/a"] = lambda line, asked: line.send(answer + EXTRA)
    for _ in range(3):
        assert bytes(web.read(f"{server.url}/a", 0, 5)) == b"hello"


def test_a_refusal_whose_body_never_comes_is_told_at_once(server, web):
    def refuse(line, asked):
        line.send(b"HTTP/1.1 404 None\r\nContent-Length: 100\r\n\r\n")
        line.stay_silent()

    server.pages["/a"] = refuse
    with pytest.raises(Exception, match="There is nothing at"):
        web.read(f"{server.url}/a", 0, 5)


@pytest.mark.parametrize(
    "module", ["node.agent", "node.supervisor.task_supervisor", "cli.main", "cli.application", "server.wiring.platform"]
)
def test_httpcore_is_imported_by_who_reads_from_the_web_alone(module):
    code = f"import sys, runyard.{module}; print('httpcore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
