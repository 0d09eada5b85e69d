import pytest

from runyard.node.service_client import _words


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            b'{"code": "standing_by", "problem": "Another service holds the database."}',
            "Another service holds the database.",
        ),
        (b"<html>Bad Gateway</html>", "<html>Bad Gateway</html>"),
        (b'["no", "object"]', '["no", "object"]'),
        (b"", ""),
    ],
)
def test_an_answer_is_told_by_the_problem_that_it_names(answer: bytes, said: str) -> None:
    assert _words(503, answer) == f"the service answered 503: {said}"
