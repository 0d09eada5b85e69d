import gzip
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runyard.core.errors import AccessDenied, DataFailed, InvalidArgument, NotFound, SourceChanged, Unreachable
from runyard.core.records.data import StoredFile
from tests.data.http.servers import Hangup, a_file, in_turn, raw, status

BIG = os.urandom(3_000_000)
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


def test_a_file_is_seen_with_its_size_tag_and_time(server, web):
    server.pages["/a"] = a_file(b"hello", Last_Modified=DATE)
    moment = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)
    assert web.stat(f"{server.url}/a") == StoredFile(f"{server.url}/a", 5, '"1"', moment, True)
    assert server.targets("GET") == []


@pytest.mark.parametrize("refused", [403, 405, 501])
def test_a_server_that_refuses_head_is_asked_for_the_first_byte(server, web, refused):
    file = a_file(b"hello")
    server.pages["/a"] = lambda line, asked: (status(refused) if asked.method == "HEAD" else file)(line, asked)
    seen = web.stat(f"{server.url}/a")
    assert (seen.size, seen.is_ranged, seen.etag) == (5, True, '"1"')


def test_a_server_that_sends_no_parts_is_seen_as_such_and_read_from_the_beginning(server, web):
    def whole(line, asked):
        line.answer(200, b"hello", head_only=asked.method == "HEAD")

    server.pages["/a"] = whole
    seen = web.stat(f"{server.url}/a")
    assert (seen.size, seen.is_ranged, seen.etag) == (5, False, "")
    assert bytes(web.read(f"{server.url}/a", 1, 3)) == b"ell"


def test_a_part_far_into_a_file_is_not_sought_in_the_whole_of_it(server, web):
    server.pages["/a"] = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    with pytest.raises(DataFailed, match="/a cannot be read in parts"):
        web.read(f"{server.url}/a", 5_000_000_000, 10)


def test_a_file_of_unknown_size_is_seen_without(server, web):
    server.pages["/a"] = raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert web.stat(f"{server.url}/a") == StoredFile(f"{server.url}/a", None, is_ranged=False)


def test_an_empty_file_is_seen_and_fetched(server, web, fetched):
    server.pages["/a"] = a_file(b"")
    assert web.stat(f"{server.url}/a").size == 0
    assert fetched(web, f"{server.url}/a", 0) == b""


def test_a_weak_tag_gives_way_to_the_time_and_size(server, web):
    server.pages["/a"] = a_file(b"hello", 'W/"1"', Last_Modified=DATE)
    etag = web.stat(f"{server.url}/a").etag
    assert "W/" not in etag
    assert bytes(web.read(f"{server.url}/a", 0, 5, etag=etag)) == b"hello"
    server.pages["/a"] = a_file(b"hello, you", 'W/"1"', Last_Modified=DATE)
    with pytest.raises(SourceChanged):
        web.read(f"{server.url}/a", 0, 5, etag=etag)


def test_parts_are_exact_from_many_threads_over_few_connections(server, web):
    server.pages["/big"] = a_file(BIG)
    starts = range(0, len(BIG), 100_000)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda start: web.read(f"{server.url}/big", start, 100_000, etag='"1"'), starts))
    assert b"".join(parts) == BIG
    assert server.connections <= 8


def test_a_forked_child_does_not_share_connections(server, web):
    server.pages["/a"], server.pages["/b"] = a_file(b"a" * 1000), a_file(b"b" * 1000)
    web.read(f"{server.url}/a", 0, 1000)
    child = os.fork()
    if not child:
        is_right = False
        try:
            is_right = bytes(web.read(f"{server.url}/b", 0, 1000)) == b"b" * 1000
        finally:
            os._exit(0 if is_right else 1)
    assert bytes(web.read(f"{server.url}/a", 0, 1000)) == b"a" * 1000
    assert os.waitpid(child, 0)[1] == 0
    assert server.connections == 2


@pytest.mark.parametrize(("start", "length"), [(0, 6), (4, 2), (5, 1), (100, 1)])
def test_past_the_end_is_refused(server, web, start, length):
    server.pages["/a"] = a_file(b"hello")
    with pytest.raises(InvalidArgument, match="/a has no bytes"):
        web.read(f"{server.url}/a", start, length)


def test_a_file_that_changed_is_said(server, web, fetched):
    server.pages["/a"] = a_file(b"hello", '"2"')
    for wanted in ({"etag": '"1"'}, {"size": 4}):
        with pytest.raises(SourceChanged, match="/a is another file"):
            fetched(web, f"{server.url}/a", **wanted)
    for start in (0, 100):
        with pytest.raises(SourceChanged, match="/a is another file"):
            web.read(f"{server.url}/a", start, 2, etag='"1"')


def test_a_part_other_than_the_asked_one_is_refused(server, web):
    server.pages["/a"] = lambda line, asked: line.answer(206, b"hello", Content_Range="bytes 7-11/20")
    with pytest.raises(DataFailed, match="asked for 5 bytes from 0 on, the server sends 'bytes 7-11/20'"):
        web.read(f"{server.url}/a", 0, 5)


def test_a_part_without_its_place_is_refused(server, web):
    server.pages["/a"] = status(206)
    with pytest.raises(DataFailed, match="/a could not be read"):
        web.read(f"{server.url}/a", 0, 5)


@pytest.mark.parametrize(
    ("code", "error"), [(404, NotFound), (410, NotFound), (401, AccessDenied), (403, AccessDenied)]
)
def test_a_refusal_is_final_and_names_the_address_without_its_query(server, web, fetched, code, error):
    server.pages["/a"] = status(code)
    for ask in (web.stat, lambda url: web.read(url, 0, 5), lambda url: fetched(web, url)):
        server.asked.clear()
        with pytest.raises(error, match=f"{server.url}/a.*{code}") as failure:
            ask(f"{server.url}/a?sig=secret")
        assert "secret" not in str(failure.value)
        assert {request.target for request in server.asked} == {"/a?sig=secret"}
        assert len(server.targets("GET")) <= 1


@pytest.mark.parametrize("code", [500, 502, 503, 408, 429])
def test_a_server_in_trouble_is_asked_again(server, patient, code):
    server.pages["/a"] = in_turn(status(code), a_file(b"hello"))
    assert bytes(patient.read(f"{server.url}/a", 0, 5)) == b"hello"


def test_trouble_that_stays_is_unreachable(server, web):
    server.pages["/a"] = status(503)
    with pytest.raises(Unreachable, match="/a could not be read: the server answers 503"):
        web.stat(f"{server.url}/a")
    assert len(server.targets("GET")) > 1


def test_a_wish_to_be_left_alone_for_longer_than_we_try_ends_it(server, web):
    server.pages["/a"] = status(429, Retry_After="3600")
    with pytest.raises(Unreachable, match="429"):
        web.read(f"{server.url}/a", 0, 5)
    assert len(server.asked) == 1


def test_a_connection_closed_between_requests_is_made_anew(server, open_web):
    file = a_file(b"hello")

    def once(line, asked):
        file(line, asked)
        raise Hangup

    server.pages["/a"] = once
    impatient = open_web(retry_seconds=0)
    for _ in range(3):
        assert bytes(impatient.read(f"{server.url}/a", 0, 5)) == b"hello"
    assert server.connections == 3


@pytest.mark.parametrize("path", ["/data.csv.gz", "/data.tgz"])
def test_a_compressed_file_is_left_as_it_lies(server, web, fetched, path):
    packed = gzip.compress(b"hello")
    server.pages[path] = a_file(packed, Content_Encoding="x-gzip")
    assert web.stat(server.url + path).size == len(packed)
    assert fetched(web, server.url + path) == packed


def test_compression_by_the_server_is_undone(server, web, fetched):
    server.pages["/a"] = a_file(
        gzip.compress(BIG[:2_000_000]) + gzip.compress(BIG[2_000_000:]), Content_Encoding="gzip"
    )
    seen = web.stat(f"{server.url}/a")
    assert (seen.size, seen.is_ranged) == (None, False)
    assert fetched(web, f"{server.url}/a", seen.size, seen.etag) == BIG
    with pytest.raises(DataFailed, match="Content-Encoding 'gzip'"):
        web.read(f"{server.url}/a", 0, 5)


def test_an_encoding_that_is_unknown_is_refused(server, web, fetched):
    server.pages["/a"] = a_file(b"hello", Content_Encoding="br")
    with pytest.raises(DataFailed, match="Content-Encoding 'br'"):
        fetched(web, f"{server.url}/a")


def test_only_files_as_they_lie_are_asked_for(server, web):
    server.pages["/a"] = a_file(b"hello")
    web.read(f"{server.url}/a", 0, 5)
    assert server.asked[0].headers["accept-encoding"] == "identity"


def test_nothing_of_the_process_is_taken_for_a_setting(server, web, monkeypatch):
    server.pages["/a"] = a_file(b"hello")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert bytes(web.read(f"{server.url}/a", 0, 5)) == b"hello"


def test_a_target_that_cannot_be_written_is_named(server, web, tmp_path: Path):
    server.pages["/a"] = a_file(b"hello")
    with pytest.raises(DataFailed, match=r"/a could not be written to .*absent"):
        web.fetch(StoredFile(f"{server.url}/a", None), tmp_path / "absent" / "file", lambda count: None)
