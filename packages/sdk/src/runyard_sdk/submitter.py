import os
import re
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
_GIT_SECONDS = 5
_HASH = re.compile(r"[0-9a-f]{40,64}\Z")


def network_variables():
    """Proxy and certificate variables of this process: with them the service reads URLs as we would."""
    return {name: os.environ[name] for name in _NETWORK if name in os.environ}


def network_headers():
    """The same as headers, for requests without a body. Not in the query: proxies may hold passwords, and URLs are
    logged."""
    import json

    variables = network_variables()
    return {"X-Runyard-Network": json.dumps(variables, sort_keys=True)} if variables else {}


def submitter_facts():
    """Facts of the submitter: interpreter, user, and the variables that a run may inherit."""
    variables = {name: os.environ[name] for name in _PASSED_ON + _NETWORK if name in os.environ}
    return {"python": sys.executable, "python_version": "%d.%d" % sys.version_info[:2], "user": _user_name(),
            "variables": variables}


def _user_name():
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user may have no name
        return str(os.getuid())


def git_properties(folder):
    """Run properties of the commit of a folder; {} outside a repository.

    Reads the files of `.git` directly: a git process costs milliseconds per submit, and only the dirty check needs one.
    """
    repository = _repository(folder)
    branch, commit = _head(repository) if repository else ("", "")
    if not commit:
        return {}
    address = _without_password(_origin(_file_text(_shared(repository), "config")))
    dirty = _git(folder, "status", "--porcelain", "--untracked-files=no")
    facts = {"repository_uri": address, "branch": branch, "commit": commit, "dirty": str(bool(dirty))}
    properties = {"azureml.git." + key: value for key, value in facts.items() if value}
    mlflow = {"repoURL": address, "branch": branch, "commit": commit}
    properties.update(("mlflow.source.git." + key, value) for key, value in mlflow.items() if value)
    return properties


def _origin(config):
    """URL of the remote `origin` in a Git configuration; "" if it has none."""
    section = ""
    for line in config.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        name, _, value = line.partition("=")
        if section.startswith('[remote "origin"]') and name.strip() == "url" and value.strip():
            return value.split()[0]
    return ""


def _repository(folder):
    """`.git` folder of a folder, or None; a worktree's `.git` is a file that names it."""
    folder = os.path.abspath(folder)
    while True:
        found = os.path.join(folder, ".git")
        if os.path.isdir(found):
            return found
        named = _file_text(folder, ".git")
        if named.startswith("gitdir:"):
            return os.path.normpath(os.path.join(folder, named[len("gitdir:"):].strip()))
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _head(repository):
    """`(branch, commit)`; the branch is "" when none is checked out."""
    head = _file_text(repository, "HEAD").strip()
    if not head.startswith("ref:"):
        return "", head if _HASH.match(head) else ""
    name = head[len("ref:"):].strip()
    commit = _file_text(repository, name).strip() or _file_text(_shared(repository), name).strip()
    if not commit:
        rows = (line.split(" ") for line in _file_text(_shared(repository), "packed-refs").splitlines())
        commit = next((row[0] for row in rows if row[1:] == [name] and _HASH.match(row[0])), "")
    return name.replace("refs/heads/", "", 1), commit


def _shared(repository):
    """Folder of refs and config, which worktrees share."""
    return os.path.normpath(os.path.join(repository, _file_text(repository, "commondir").strip() or "."))


def _file_text(folder, name):
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as source:
            return source.read()
    except OSError:
        return ""


def _git(folder, *arguments):
    import subprocess

    try:
        output = subprocess.check_output(("git",) + arguments, cwd=folder, timeout=_GIT_SECONDS,
                                         stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return ""
    return output.decode("utf-8", "replace").strip()


def _without_password(address):
    """Remote URL without credentials: everybody can read a property."""
    if "://" not in address or "@" not in address:
        return address
    scheme, rest = address.split("://", 1)
    host, slash, path = rest.partition("/")
    return scheme + "://" + host.rpartition("@")[2] + slash + path
