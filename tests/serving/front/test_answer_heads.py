import orjson

from runyard.serving.gateway.http.exchange import worker_lines
from runyard.serving.gateway.http.response_head import field_lines, status_line


def test_what_would_break_an_answer_in_two_is_left_out() -> None:
    bad = [("X-Bad", "a\r\nSet-Cookie: stolen=1"), ("Bad Name", "1"), ("X\r\nY", "1"), ("", "1"), ("X-Nul", "\x00")]
    assert field_lines([*bad, ("X-Good", "yes")]) == b"X-Good: yes\r\n"


def test_a_worker_does_not_say_how_its_answer_is_framed() -> None:
    ours = [("Content-Length", "9"), ("transfer-encoding", "chunked"), ("Connection", "close"), ("Upgrade", "h2c")]
    assert field_lines(ours) == b""


def test_values_beyond_latin_letters_are_left_out() -> None:
    assert field_lines([("X-Name", "žluť"), ("X-Other", "é")]) == "X-Other: é\r\n".encode("latin-1")


def test_a_head_that_is_none_is_passed_over() -> None:
    plain = b"Content-Type: application/json\r\nx-ms-run-function-failed: False\r\n"
    for head in (b"no json", b"[]", b'{"headers": 3}', b'{"headers": [[1]]}', b'{"headers": [["a", "b", "c"]]}', b"3"):
        assert worker_lines(head) == plain


def test_a_worker_may_say_the_type_and_that_the_script_failed() -> None:
    head = orjson.dumps({"headers": [["Content-Type", "text/csv"], ["x-ms-run-function-failed", "True"]]})
    assert worker_lines(head) == b"Content-Type: text/csv\r\nx-ms-run-function-failed: True\r\n"


def test_a_status_that_http_does_not_have_is_a_500() -> None:
    assert status_line(99).startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert status_line(299).startswith(b"HTTP/1.1 299 ")
