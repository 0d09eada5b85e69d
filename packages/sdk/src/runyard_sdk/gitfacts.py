import os

_GIT_SECONDS = 5


def git_properties(folder):
    """The run properties that tell which commit a folder is at; {} outside a repository or without git."""
    if not _is_in_repository(folder):
        return {}
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return {}
    branch = _git(folder, "symbolic-ref", "--short", "-q", "HEAD")
    dirty = _git(folder, "status", "--porcelain", "--untracked-files=no")
    facts = {"repository_uri": _without_password(_git(folder, "config", "--get", "remote.origin.url")),
             "branch": branch, "commit": commit, "dirty": str(bool(dirty))}
    properties = {"azureml.git." + key: value for key, value in facts.items() if value}
    mlflow = {"repoURL": facts["repository_uri"], "branch": branch, "commit": commit}
    properties.update(("mlflow.source.git." + key, value) for key, value in mlflow.items() if value)
    return properties


def _is_in_repository(folder):
    folder = os.path.abspath(folder)
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


def _git(folder, *arguments):
    import subprocess

    try:
        said = subprocess.check_output(("git",) + arguments, cwd=folder, timeout=_GIT_SECONDS,
                                       stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.decode("utf-8", "replace").strip()


def _without_password(address):
    """A remote's address may hold a token; a property is read by everybody."""
    if "://" not in address or "@" not in address:
        return address
    scheme, rest = address.split("://", 1)
    host, slash, path = rest.partition("/")
    return scheme + "://" + host.rpartition("@")[2] + slash + path
