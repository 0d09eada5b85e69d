import time

import pytest

from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.principal import OWNER
from runyard.server.http.responses import to_json
from runyard.serving.service_tokens import is_token_good
from tests.servers.certificates import make_certificate
from tests.serving.web_service_parts import SPACE, opened_parts

CHOSEN = "a-key-that-i-chose"


@pytest.fixture
def parts(home):
    with opened_parts(home) as opened:
        opened.model()
        yield opened


@pytest.fixture
def tls(tmp_path):
    made = make_certificate(tmp_path)
    return {"ssl_enabled": True, "ssl_cert_pem": made.chain.read_text(), "ssl_key_pem": made.key.read_text()}


@pytest.fixture
def keys(parts):
    return parts.serving.keys


def test_the_keys_that_are_shown_are_those_that_the_gateway_asks_for(parts, keys):
    parts.deploy(type="AKS")
    shown = keys.get(OWNER, SPACE, "iris-service")
    assert parts.host.applied[-1].admission.keys == (shown.primary, shown.secondary)
    assert shown.primary != shown.secondary
    assert min(len(shown.primary), len(shown.secondary)) >= 32


def test_a_web_service_without_keys_asks_for_none_and_has_none_to_show(parts, keys):
    parts.deploy()
    assert parts.host.applied[-1].admission.keys == ()
    with pytest.raises(Conflict, match="auth_enabled=True"):
        keys.get(OWNER, SPACE, "iris-service")


def test_keys_come_with_auth_enabled_and_no_worker_is_replaced_for_it(parts, keys):
    parts.deploy()
    parts.change(config={"auth_enabled": True})
    last = parts.host.applied[-1]
    assert (last.revision, last.generation) == (1, 2)
    assert last.admission.keys[0] == keys.get(OWNER, SPACE, "iris-service").primary


@pytest.mark.parametrize("which", ["Primary", "secondary"])
def test_one_key_is_made_anew_and_the_other_stays(parts, keys, which):
    parts.deploy(type="AKS")
    before = keys.get(OWNER, SPACE, "iris-service")
    after = keys.renew(OWNER, SPACE, "iris-service", which)
    is_primary = which == "Primary"
    assert (after.primary != before.primary, after.secondary != before.secondary) == (is_primary, not is_primary)
    assert parts.host.applied[-1].admission.keys == (after.primary, after.secondary)
    assert parts.host.applied[-1].revision == 1
    assert keys.get(OWNER, SPACE, "iris-service") == after


def test_a_key_may_be_chosen(parts, keys):
    parts.deploy(type="AKS", config={"primary_key": CHOSEN})
    assert keys.get(OWNER, SPACE, "iris-service").primary == CHOSEN
    assert keys.renew(OWNER, SPACE, "iris-service", "Secondary", CHOSEN + "2").secondary == CHOSEN + "2"
    with pytest.raises(InvalidArgument, match="set_key"):
        keys.renew(OWNER, SPACE, "iris-service", "Primary", "bad\r\nkey")
    with pytest.raises(InvalidArgument, match="'Primary' or 'Secondary'"):
        keys.renew(OWNER, SPACE, "iris-service", "Third")


def test_keys_stay_when_a_deployment_is_overwritten_or_updated(parts, keys):
    parts.deploy(type="AKS")
    before = keys.get(OWNER, SPACE, "iris-service")
    parts.deploy(type="AKS", overwrite=True)
    parts.change(config={"num_replicas": 2})
    assert keys.get(OWNER, SPACE, "iris-service") == before


def test_a_token_is_one_that_the_gateway_takes(parts, keys):
    parts.deploy(type="AKS", config={"token_auth_enabled": True})
    signed, spec = keys.sign(OWNER, SPACE, "iris-service"), parts.host.applied[-1]
    assert spec.admission.keys == ()
    assert is_token_good(signed.access_token, spec.admission.token_secret, spec.id, time.time())
    assert not is_token_good(signed.access_token, spec.admission.token_secret, spec.id, signed.expiry_on)
    assert time.time() < signed.refresh_after < signed.expiry_on
    with pytest.raises(Conflict, match="get_token"):
        keys.get(OWNER, SPACE, "iris-service")


def test_tokens_that_leaked_are_refused_once_a_key_is_renewed(parts, keys):
    parts.deploy(type="AKS", config={"token_auth_enabled": True})
    leaked = keys.sign(OWNER, SPACE, "iris-service").access_token
    keys.renew(OWNER, SPACE, "iris-service", "Primary")
    spec = parts.host.applied[-1]
    assert spec.revision == 1
    assert not is_token_good(leaked, spec.admission.token_secret, spec.id, time.time())
    new = keys.sign(OWNER, SPACE, "iris-service").access_token
    assert is_token_good(new, spec.admission.token_secret, spec.id, time.time())


def test_a_web_service_with_keys_signs_no_tokens(parts, keys):
    parts.deploy(type="AKS")
    with pytest.raises(Conflict, match="token_auth_enabled"):
        keys.sign(OWNER, SPACE, "iris-service")


def test_no_secret_lies_readable_in_a_record_or_in_the_database(parts, keys, tls, home):
    made = parts.deploy(config={"auth_enabled": True, "primary_key": CHOSEN, **tls})
    secondary = keys.get(OWNER, SPACE, "iris-service").secondary
    spec = parts.host.applied[-1]
    assert (spec.private_key, spec.certificate) == (tls["ssl_key_pem"], tls["ssl_cert_pem"])
    shown = to_json(parts.record()) + to_json(made.body) + repr(parts.base.settings).encode()
    stored = b"".join(path.read_bytes() for path in home.glob("runyard.db*"))
    for secret in (CHOSEN, secondary, tls["ssl_key_pem"].splitlines()[1]):
        assert secret.encode() not in shown
        assert secret.encode() not in stored


def test_a_private_key_goes_on_through_changes_of_other_things(parts, tls):
    parts.deploy(config=tls)
    parts.change(config={"auth_enabled": True})
    assert parts.host.applied[-1].private_key == tls["ssl_key_pem"]
    assert parts.record().scoring_uri.startswith("https://localhost:")
    parts.change(config={"ssl_enabled": False})
    assert (parts.host.applied[-1].private_key, parts.host.applied[-1].certificate) == ("", "")


def test_a_certificate_that_is_not_that_of_its_key_is_refused_at_once(parts, tls, tmp_path):
    (tmp_path / "other").mkdir()
    other = make_certificate(tmp_path / "other").key.read_text()
    with pytest.raises(InvalidArgument, match="ssl_key_pem_file"):
        parts.deploy(config={**tls, "ssl_key_pem": other})
    assert parts.host.applied == []
    parts.deploy(config=tls)


def test_a_start_forgets_secrets_that_a_killed_deployment_left(parts, keys):
    parts.deploy(type="AKS")
    before = keys.get(OWNER, SPACE, "iris-service")
    credentials = parts.serving.services._credentials
    left = credentials.keep(SPACE, "other", credentials.of(parts.serving.services.get(OWNER, SPACE, "iris-service")))
    parts.restarted().serving.reconciler.reconcile([])
    assert left not in credentials._vault.names(SPACE)
    assert keys.get(OWNER, SPACE, "iris-service") == before
