"""What of an address is a secret: the one definition that logs, locks, settings and image builds go by."""

import pytest

from runyard.core.url_secrets import has_secret, redacted, unredacted, without_logins

ADDRESSES = {
    "https://me:s3cret@index.example/simple": "https://me:****@index.example/simple",
    "https://s3cret@index.example/simple": "https://****@index.example/simple",
    "https://s3cret:@index.example/simple": "https://****@index.example/simple",
    "https://s3cret:x-oauth-basic@github.example/a": "https://****@github.example/a",
    "https://:s3cret@index.example/simple": "https://****@index.example/simple",
    "https://me:s3@cr:et@index.example": "https://me:****@index.example",
    "https://index.example/simple?token=s3cret&page=2": "https://index.example/simple?token=****&page=2",
    "https://blobs.example/w.whl?sv=1&sig=s3%2Fcret#sha256=ab": "https://blobs.example/w.whl?sv=1&sig=****#sha256=ab",
    "https://s3.example/w.whl?X-Amz-Signature=s3cret": "https://s3.example/w.whl?X-Amz-Signature=****",
    "https://conda.example/t/tk-s3cret/main": "https://conda.example/t/****/main",
    "git+https://s3cret@github.example/a/b.git@main": "git+https://****@github.example/a/b.git@main",
}
OPEN = (
    "https://index.example/simple",
    "https://index.example/a@b/simple?page=2",
    "git+ssh://git@github.example/a/b.git@main",
    '{"url":"https://conda.example","by":"me@conda.example"}',
    "https://index.example/t/",
    "me@index.example and a:b@c",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_secrets_are_hidden_wherever_they_stand_in_an_address(address):
    assert redacted(f"Looking in {address} please") == f"Looking in {ADDRESSES[address]} please"
    assert has_secret(address)
    assert "s3cret" not in without_logins(address)


@pytest.mark.parametrize("address", OPEN)
def test_what_holds_no_secret_stays_as_it_is(address):
    assert redacted(address) == address
    assert not has_secret(address)


@pytest.mark.parametrize("address", ADDRESSES)
def test_who_knows_the_address_has_its_secret_back(address):
    lock = f"demo @ {address}#sha256=abc\n"
    assert unredacted(redacted(lock), [f"demo @ {address} ; python_version > '3'"]) == lock


def test_a_login_comes_back_where_more_was_written_behind_the_address():
    known = "demo @ git+https://s3cret@github.example/a/b.git"
    locked = "demo @ git+https://****@github.example/a/b.git@0123abcd"
    assert unredacted(locked, [known]) == "demo @ git+https://s3cret@github.example/a/b.git@0123abcd"
