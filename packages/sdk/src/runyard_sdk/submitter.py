import os
import sys

_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL",
              "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CERT", "PIP_TRUSTED_HOST", "PIP_CONFIG_FILE", "UV_INDEX",
              "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX", "UV_NATIVE_TLS",
              "UV_SYSTEM_CERTS", "UV_INSECURE_HOST", "UV_CONFIG_FILE", "UV_CACHE_DIR", "UV_LINK_MODE", "XDG_CACHE_HOME",
              "XDG_CONFIG_HOME", "XDG_DATA_HOME", "UV_PYTHON_DOWNLOADS", "UV_PYTHON_DOWNLOADS_JSON_URL",
              "UV_PYTHON_INSTALL_DIR", "UV_PYTHON_INSTALL_MIRROR", "PYENV_ROOT", "CONDA_EXE", "CONDA_PKGS_DIRS",
              "MAMBA_EXE", "MAMBA_ROOT_PREFIX", "DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH",
              "CONTAINER_HOST")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_NETWORK = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") + _PROXIES + tuple(
    name.upper() for name in _PROXIES)


def network_variables():
    """The proxies and certificates of this process: with them the service reads web addresses as we would."""
    return {name: os.environ[name] for name in _NETWORK if name in os.environ}


def network_headers():
    """The same for a request without a body. No query: proxies may hold passwords, and addresses are logged."""
    import json

    variables = network_variables()
    return {"X-Runyard-Network": json.dumps(variables, sort_keys=True)} if variables else {}


def submitter_facts():
    """The interpreter and the user that submit, and the few variables of theirs that a run may inherit."""
    variables = {name: os.environ[name] for name in _PASSED_ON + _NETWORK if name in os.environ}
    return {"python": sys.executable, "python_version": "%d.%d" % sys.version_info[:2], "user": _user_name(),
            "variables": variables}


def _user_name():
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user need not have a name
        return str(os.getuid())
