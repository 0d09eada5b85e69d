"""Many small files asked for at once: whatever a server makes of it, no wrong byte comes, and what is left out can be
read one by one."""

import os

import pytest

from runyard.core.records.data import NetworkRules
from runyard.data.http.store import WebStore
from tests.data.http.servers import Hangup, Line, Page, Request, a_file, cut, in_turn, raw, status

FILES = {f"/{number}": os.urandom(1000 + 20_000 * (number % 3)) for number in range(40)}


def put_up(server, **pages: Page) -> list[tuple[str, int, str]]:
    """All files on the server, but for the given pages; how a reader asks for them."""
    server.pages.update({path: a_file(content) for path, content in FILES.items()})
    server.pages.update({f"/{number}": page for number, page in pages.items()})
    return [(f"{server.url}{path}", len(content), '"1"') for path, content in FILES.items()]


def came(web, wanted) -> list[int]:
    """Which of them came, each as it is on the server."""
    contents = list(FILES.values())
    found = dict(web.read_many(wanted))
    for number, data in found.items():
        assert bytes(data) == contents[number]
    return sorted(found)


def others_than(*numbers: int) -> list[int]:
    return [number for number in range(len(FILES)) if number not in numbers]


def closing(page: Page) -> Page:
    def answer(line: Line, request: Request) -> None:
        page(line, request)
        raise Hangup

    return answer


def test_all_come_over_one_connection(server, web):
    wanted = put_up(server)
    assert came(web, wanted) == others_than()
    assert server.connections == 1
    assert came(web, wanted) == others_than()
    assert server.connections == 1


def test_requests_are_sent_before_their_answers_are_awaited(server, web):
    wanted = put_up(server)
    came(web, wanted[:2])
    waiting = []

    def answer_with_the_next(line: Line, request: Request) -> None:
        waiting.append(request)
        if len(waiting) == 3:
            for one in waiting:
                a_file(FILES[one.target])(line, one)

    server.pages.update(dict.fromkeys(["/0", "/1", "/2"], answer_with_the_next))
    assert came(web, wanted[:3]) == [0, 1, 2]


def test_a_server_is_asked_for_one_file_before_it_is_asked_for_many(server, web):
    wanted = put_up(server)
    asked_meanwhile = []

    def first(line: Line, request: Request) -> None:
        asked_meanwhile.extend(server.asked)
        a_file(FILES["/0"])(line, request)

    server.pages["/0"] = first
    assert came(web, wanted) == others_than()
    assert [request.target for request in asked_meanwhile] == ["/0"]


@pytest.mark.parametrize("code", [204, 304, 400, 403, 404, 416, 429, 500, 503])
def test_a_refusal_in_the_middle_is_that_files_alone(server, web, code):
    wanted = put_up(server, **{"5": lambda line, request: line.answer(code, b"" if code in (204, 304) else b"no" * 99)})
    assert came(web, wanted) == others_than(5)
    assert server.connections == 1


def test_a_redirect_is_left_to_single_reads(server, web):
    wanted = put_up(server, **{"5": status(302, Location="/elsewhere")})
    server.pages["/elsewhere"] = a_file(FILES["/5"])
    assert came(web, wanted) == others_than(5)
    assert bytes(web.read(*wanted[5][:1], 0, wanted[5][1], etag='"1"')) == FILES["/5"]


def test_a_file_that_changed_or_shrank_does_not_come(server, web):
    wanted = put_up(
        server,
        **{"5": a_file(FILES["/5"], '"2"'), "6": a_file(FILES["/6"][:-1]), "7": a_file(FILES["/7"][:-1], '"2"')},
    )
    assert came(web, wanted) == others_than(5, 6, 7)


def test_a_part_of_another_place_does_not_come(server, web):
    wanted = put_up(server, **{"5": lambda line, request: line.answer(206, b"x" * 10, Content_Range="bytes 5-14/999")})
    assert came(web, wanted) == others_than(5)


def test_an_encoded_answer_does_not_come(server, web):
    wanted = put_up(server, **{"5": a_file(FILES["/5"], Content_Encoding="gzip")})
    assert came(web, wanted) == others_than(5)


def test_a_connection_that_ends_between_two_answers_is_followed_by_another(server, web):
    wanted = put_up(server)
    came(web, wanted[:2])
    server.pages["/9"] = in_turn(closing(a_file(FILES["/9"], Connection="close")), a_file(FILES["/9"]))
    assert came(web, wanted) == others_than()
    assert server.connections == 2
    assert came(web, wanted) == others_than()
    assert server.connections == 2


def test_a_transfer_that_breaks_off_costs_one_file(server, web):
    wanted = put_up(server)
    came(web, wanted[:2])
    server.pages["/9"] = cut(a_file(FILES["/9"]), 100)
    assert came(web, wanted) == others_than(9)


@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}])
def test_a_server_that_closes_after_each_answer_is_not_asked_for_many_again(server, web, headers):
    wanted = put_up(server, **{path[1:]: closing(a_file(content, **headers)) for path, content in FILES.items()})
    first = came(web, wanted)
    assert 1 <= len(first) <= 2
    asked = len(server.asked)
    assert came(web, wanted) == []
    assert len(server.asked) == asked
    assert bytes(web.read(wanted[9][0], 0, wanted[9][1], etag='"1"')) == FILES["/9"]


def test_a_server_that_answers_only_the_first_of_several_is_not_asked_for_many_again(server, web):
    wanted = put_up(server)
    came(web, wanted[:2])
    server.pages["/5"] = lambda line, request: line.stay_silent()
    assert came(web, wanted) == [0, 1, 2, 3, 4]
    asked = len(server.asked)
    assert came(web, wanted) == []
    assert len(server.asked) == asked


def test_an_answer_without_an_end_is_not_waited_for(server, web):
    wanted = put_up(server, **{"5": raw(b"HTTP/1.1 200 OK\r\n\r\nall there is")})
    assert came(web, wanted) == others_than(5)


def test_what_is_no_http_brings_nothing(server, web):
    wanted = put_up(server, **{"0": raw(b"220 ready\r\n\r\n")})
    assert came(web, wanted) == []


def test_a_server_of_http_1_0_is_asked_one_by_one(server, web):
    content = FILES["/0"]
    answer = b'HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nETag: "1"\r\nContent-Length: %d\r\n\r\n' % len(content)
    wanted = put_up(server, **{"0": lambda line, request: line.send(answer + content)})
    server.pages["/1"] = server.pages["/0"]
    assert set(came(web, wanted[:1])) == {0}
    came(web, wanted)
    assert "/2" not in server.targets()


def test_a_server_that_is_gone_brings_nothing_and_may_come_back(server, web, open_web):
    wanted = put_up(server)
    assert list(open_web().read_many([("http://127.0.0.1:1/a", 5, "")])) == []
    assert came(web, [*wanted[:3]]) == [0, 1, 2]


def test_refused_addresses_and_paths_are_left_out(server, open_web):
    wanted = put_up(server)
    assert list(open_web(allow_private=False).read_many(wanted)) == []
    assert server.connections == 0
    below = open_web(server.url)
    found = dict(below.read_many([("0", 1000, '"1"'), ("../1", 5, ""), ("a\0b", 5, ""), ("3", 1000, '"1"')]))
    assert sorted(found) == [0, 3]


def test_a_proxy_is_asked_one_by_one(server):
    wanted = put_up(server)
    store = WebStore(NetworkRules(variables={"http_proxy": server.url}))
    assert list(store.read_many([("http://example.invalid/0", 1000, '"1"'), *wanted[:0]])) == []
    assert server.asked == []


def test_long_addresses_are_sent_in_turns(server, web):
    put_up(server)
    wanted = [(f"{server.url}{path}?{'s' * 4000}", len(content), '"1"') for path, content in FILES.items()]
    assert came(web, wanted) == others_than()
    assert server.connections == 1


def test_files_of_several_servers_come_together(server, web):
    wanted = put_up(server)
    wanted[3:5] = [(path.replace("127.0.0.1", "localhost"), size, etag) for path, size, etag in wanted[3:5]]
    assert came(web, wanted) == others_than()
