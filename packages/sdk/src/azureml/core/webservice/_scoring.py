"""Asking a web service."""
import json

from azureml.core.webservice._records import find_record, has_failed
from azureml.core.webservice._waiting import failure_text
from azureml.exceptions import WebserviceException

_SECONDS = 600
_UNAUTHORIZED = 401


def ask(service, input_data):
    """POST the text or bytes as JSON to scoring_uri; what the answer's JSON says."""
    if not service.scoring_uri:
        raise WebserviceException("The web service %r has no scoring_uri yet (state %s). Call wait_for_deployment() "
                                  "first." % (service.name, service.state))
    body = _bytes_of(input_data)
    status, headers, content = _post(service, body)
    if status == _UNAUTHORIZED and service._session_key:
        service._session_key = None  # the key may have been made anew since
        status, headers, content = _post(service, body)
    if status != 200:
        raise WebserviceException(
            "Received bad response from service %r. More information can be found by calling get_logs() on it.\n"
            "Response Code: %s\nHeaders: %s\nContent: %s" % (
                service.name, status, headers, content.decode("utf-8", "replace")), status_code=status)
    try:
        return json.loads(content.decode("utf-8"))
    except ValueError:
        raise WebserviceException("The web service %r answered with %s, which is not JSON. Ask scoring_uri with an "
                                  "HTTP client of your own: %s" % (
                                      service.name, headers.get("content-type"), service.scoring_uri)) from None


def _bytes_of(input_data):
    if isinstance(input_data, str):
        return input_data.encode("utf-8")
    if isinstance(input_data, (bytes, bytearray)):
        return bytes(input_data)
    raise WebserviceException("input_data must be text or bytes, such as json.dumps({'data': array.tolist()}), "
                              "got %s." % type(input_data).__name__)


def _post(service, body):
    from http.client import HTTPException
    from urllib.parse import urlsplit
    address = urlsplit(service.scoring_uri)
    headers = {"Content-Type": "application/json"}
    if service.auth_enabled or service.token_auth_enabled:
        headers["Authorization"] = "Bearer " + _key_of(service)
    try:
        connection = _connection(address, service)
        try:
            connection.request("POST", address.path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()
    except (OSError, HTTPException) as error:
        raise _unanswered(service, error) from None


def _unanswered(service, error):
    """Why nobody answers, as far as its record tells; else what the connection said."""
    record = find_record(service.workspace, service.name)
    if record is None:
        return WebserviceException("The web service %r is not there any more." % service.name, status_code=404)
    if has_failed(record):
        return WebserviceException(failure_text(record))
    return WebserviceException("The web service %r at %s does not answer: %s. Its state is %s; see get_logs()." % (
        service.name, service.scoring_uri, error, record["state"]))


def _key_of(service):
    if not service._session_key:
        service._session_key = service.get_token()[0] if service.token_auth_enabled else service.get_keys()[0]
    return service._session_key


def _connection(address, service):
    from http.client import HTTPConnection, HTTPSConnection
    if address.scheme != "https":
        return HTTPConnection(address.hostname, address.port, timeout=_SECONDS)
    import ssl
    trusted = ssl.create_default_context(cadata=service._record["config"].get("ssl_cert_pem"))
    trusted.check_hostname = False  # the certificate is for ssl_cname, and the service answers on this machine
    return HTTPSConnection(address.hostname, address.port, timeout=_SECONDS, context=trusted)
