import pytest

from runyard.serving.service_tokens import is_token_good, sign_token

TOKEN = sign_token("secret", "service", 1000)


def test_a_token_is_good_until_it_expires():
    assert is_token_good(TOKEN, "secret", "service", 999.9)
    assert not is_token_good(TOKEN, "secret", "service", 1000)


@pytest.mark.parametrize(("secret", "service"), [("other", "service"), ("secret", "other")])
def test_a_token_of_another_web_service_is_none(secret, service):
    assert not is_token_good(TOKEN, secret, service, 0)


@pytest.mark.parametrize("token", ["", ".", "1000", "9999." + TOKEN.partition(".")[2], "x.y", "\udcff.x", TOKEN + "0"])
def test_a_text_that_is_no_token_is_refused(token):
    assert not is_token_good(token, "secret", "service", 0)
