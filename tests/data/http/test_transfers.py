import gzip
import os
from pathlib import Path

import pytest

from runyard.core.errors import SourceChanged, TooLarge, Unreachable
from runyard.core.records.data import StoredFile
from tests.data.http.servers import Hangup, a_file, cut, in_turn, raw, status

BIG = os.urandom(3_000_000)
OLD = b"HTTP/1.0 200 OK\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def _in_chunks(content: bytes, size: int) -> bytes:
    parts = [content[start : start + size] for start in range(0, len(content), size)]
    return b"".join(b"%x;note=1\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nTrailer: x\r\n\r\n"


def test_a_broken_transfer_is_taken_up_where_it_broke(server, patient, fetched):
    server.pages["/big"] = cut(a_file(BIG), 1_000_000, 500_000)
    assert fetched(patient, f"{server.url}/big") == BIG
    asked = [(request.headers.get("range"), request.headers.get("if-range")) for request in server.asked]
    assert asked == [(None, None), ("bytes=1000000-", '"1"'), ("bytes=1500000-", '"1"')]


def test_a_broken_transfer_without_a_tag_begins_again(server, patient, fetched):
    server.pages["/big"] = cut(a_file(BIG, tag=""), 1_000_000)
    assert fetched(patient, f"{server.url}/big") == BIG
    assert [request.headers.get("range") for request in server.asked] == [None, None]


def test_a_file_that_changed_while_it_came_is_never_put_together(server, patient, fetched):
    server.pages["/big"] = in_turn(cut(a_file(bytes(3_000_000)), 1_000_000), a_file(BIG, '"2"'))
    assert fetched(patient, f"{server.url}/big") == BIG


def test_a_pinned_file_that_changed_while_it_came_is_said(server, patient, fetched):
    server.pages["/big"] = in_turn(cut(a_file(bytes(3_000_000)), 1_000_000), a_file(BIG, '"2"'))
    with pytest.raises(SourceChanged):
        fetched(patient, f"{server.url}/big", 3_000_000, '"1"')


def test_a_server_that_goes_on_with_another_version_is_not_believed(server, patient, fetched):
    def careless(line, asked):
        line.answer(206, BIG[1_000_000:], Content_Range="bytes 1000000-2999999/3000000", ETag='"2"')

    server.pages["/big"] = in_turn(cut(a_file(bytes(3_000_000)), 1_000_000), careless, a_file(BIG, '"2"'))
    assert fetched(patient, f"{server.url}/big") == BIG


def test_a_server_that_goes_on_elsewhere_is_not_believed(server, patient, fetched):
    def confused(line, asked):
        line.answer(206, BIG[999_999:], Content_Range="bytes 999999-2999999/3000000", ETag='"1"')

    server.pages["/big"] = in_turn(cut(a_file(BIG), 1_000_000), confused, a_file(BIG))
    assert fetched(patient, f"{server.url}/big") == BIG


def test_half_a_body_again_and_again_is_no_file(server, web, fetched):
    server.pages["/a"] = cut(a_file(b"hello", tag=""), *[3] * 1000)
    with pytest.raises(Unreachable, match="/a could not be read: the transfer ended after 3 of 5 bytes"):
        fetched(web, f"{server.url}/a")


def test_half_a_part_is_asked_for_again(server, patient):
    server.pages["/a"] = cut(a_file(b"hello"), 2)
    assert bytes(patient.read(f"{server.url}/a", 1, 4)) == b"ello"


@pytest.mark.parametrize("size", [1, 7, 1000, 70_000, 3_000_000])
def test_chunks_of_any_size_are_put_together(server, web, fetched, size):
    content = BIG[: size * 50]
    server.pages["/a"] = lambda line, asked: line.send(CHUNKED + _in_chunks(content, size))
    assert fetched(web, f"{server.url}/a") == content
    assert fetched(web, f"{server.url}/a") == content
    assert server.connections == 1


@pytest.mark.parametrize(
    "body",
    [b"5\r\nhel", b"5\r\nhello\r\n", b"5\r\nhelloX\r\n0\r\n\r\n", b"-5\r\nhello", b"ffffffffffffffffff\r\nx", b"0\r\n"],
)
def test_chunks_without_their_end_are_no_file(server, open_web, fetched, body):
    server.pages["/a"] = raw(CHUNKED + body)
    with pytest.raises(Unreachable, match="/a could not be read"):
        fetched(open_web(retry_seconds=0.1), f"{server.url}/a")


def test_a_server_of_old_ends_a_file_with_the_connection(server, web, fetched):
    server.pages["/a"] = raw(OLD + BIG)
    assert fetched(web, f"{server.url}/a") == BIG


def test_a_server_of_old_that_is_cut_off_is_found_out_by_the_size(server, patient, fetched):
    server.pages["/a"] = in_turn(raw(OLD + BIG[:1000]), raw(OLD + BIG))
    assert fetched(patient, f"{server.url}/a", len(BIG)) == BIG


def endless(start: bytes):
    def answer(line, asked):
        line.send(start)
        while True:
            line.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")

    return answer


@pytest.mark.parametrize("start", [OLD, CHUNKED])
def test_an_endless_body_is_stopped(server, open_web, fetched, start):
    server.pages["/a"] = endless(start)
    with pytest.raises(TooLarge, match="/a is larger than the 1000000 bytes"):
        fetched(open_web(max_untold_bytes=1_000_000), f"{server.url}/a")


@pytest.mark.parametrize("start", [OLD, CHUNKED])
def test_a_body_that_outgrows_the_listed_size_is_left_at_once(server, patient, fetched, start):
    server.pages["/a"] = endless(start)
    with pytest.raises(SourceChanged):
        fetched(patient, f"{server.url}/a", 1_000_000)


def test_a_file_that_says_to_be_too_large_is_not_begun(server, open_web, fetched):
    server.pages["/a"] = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\n")
    with pytest.raises(TooLarge):
        fetched(open_web(max_file_bytes=1_000_000), f"{server.url}/a")


def test_a_small_body_that_unpacks_to_a_huge_one_is_stopped(server, open_web, fetched):
    server.pages["/a"] = a_file(gzip.compress(bytes(50_000_000)), Content_Encoding="gzip")
    with pytest.raises(TooLarge):
        fetched(open_web(max_file_bytes=1_000_000), f"{server.url}/a")


def test_progress_counts_each_byte_once(server, patient, tmp_path: Path):
    server.pages["/big"] = cut(a_file(BIG, tag=""), 2_000_000)
    told: list[int] = []
    got = patient.fetch(StoredFile(f"{server.url}/big", None), tmp_path / "big", told.append)
    assert (sum(told), got.size, min(told) > 0) == (len(BIG), len(BIG), True)


def test_a_file_that_is_there_stays_when_the_new_one_fails(server, web, tmp_path: Path):
    (tmp_path / "file").write_bytes(b"before")
    server.pages["/a"] = status(404)
    with pytest.raises(Exception, match="nothing at"):
        web.fetch(StoredFile(f"{server.url}/a", None), tmp_path / "file", lambda count: None)
    assert (tmp_path / "file").read_bytes() == b"before"


def test_a_server_that_comes_back_during_a_transfer_is_taken_up_again(server, patient, fetched):
    def gone(line, asked):
        raise Hangup

    server.pages["/big"] = in_turn(cut(a_file(BIG), 1_500_000), gone, status(503), a_file(BIG))
    assert fetched(patient, f"{server.url}/big") == BIG
    assert server.asked[-1].headers["range"] == "bytes=1500000-"
