import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.settings import read_settings
from runyard.core.web_service_settings import web_service_settings
from tests.servers.certificates import make_certificate


def test_web_services_listen_on_this_machine_alone_unless_told(home):
    found = read_settings({}, home).web_services
    assert (found.host, found.names, found.certificate, found.request_bytes) == ("127.0.0.1", (), "", 100 << 20)


def test_a_network_address_needs_a_certificate_or_a_word(tmp_path):
    with pytest.raises(InvalidArgument, match="unencrypted"):
        web_service_settings({"RUNYARD_SERVICES_HOST": "192.0.2.1"})
    plain = web_service_settings({"RUNYARD_SERVICES_HOST": "192.0.2.1", "RUNYARD_NO_TLS": "1"})
    assert plain.host == "192.0.2.1"
    made = make_certificate(tmp_path)
    files = {"RUNYARD_SERVICES_TLS_CERT": str(made.chain), "RUNYARD_SERVICES_TLS_KEY": str(made.key)}
    found = web_service_settings({"RUNYARD_SERVICES_HOST": "192.0.2.1", **files})
    assert found.certificate == made.chain.read_text()
    assert found.private_key == made.key.read_text()
    assert found.private_key not in repr(found)


def test_names_are_for_the_host_header_and_the_first_is_shown():
    found = web_service_settings({"RUNYARD_SERVICES_NAMES": "Models.Example, *.models.example,192.0.2.1,::1"})
    assert found.names == ("models.example", "*.models.example", "192.0.2.1", "::1")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"RUNYARD_SERVICES_HOST": "a b"}, "RUNYARD_SERVICES_HOST"),
        ({"RUNYARD_SERVICES_HOST": "0.0.0.0", "RUNYARD_NO_TLS": "1"}, "RUNYARD_SERVICES_NAMES"),
        ({"RUNYARD_SERVICES_NAMES": "http://x"}, "RUNYARD_SERVICES_NAMES"),
        ({"RUNYARD_SERVICES_MAX_REQUEST_BYTES": "-1"}, "RUNYARD_SERVICES_MAX_REQUEST_BYTES"),
        ({"RUNYARD_SERVICES_MAX_REQUEST_BYTES": "lots"}, "RUNYARD_SERVICES_MAX_REQUEST_BYTES"),
        ({"RUNYARD_SERVICES_TLS_CERT": "/nowhere"}, "RUNYARD_SERVICES_TLS_KEY is not"),
        ({"RUNYARD_SERVICES_TLS_CERT": "/nowhere", "RUNYARD_SERVICES_TLS_KEY": "/nowhere"}, "PEM"),
    ],
)
def test_a_value_that_cannot_be_names_its_variable(variables, said):
    with pytest.raises(InvalidArgument, match=said):
        web_service_settings(variables)
