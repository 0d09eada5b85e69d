"""Which commit a source folder is at. The files of `.git` are read here: a process costs milliseconds of a submit,
and only whether files were changed needs one."""

import os
import re

_GIT_SECONDS = 5
_HASH = re.compile(r"[0-9a-f]{40,64}\Z")


def git_properties(folder):
    """The run properties that tell which commit a folder is at; {} outside a repository."""
    repository = _repository(folder)
    branch, commit = _head(repository) if repository else ("", "")
    if not commit:
        return {}
    address = _without_password(_origin(_text(_shared(repository), "config")))
    dirty = _git(folder, "status", "--porcelain", "--untracked-files=no")
    facts = {"repository_uri": address, "branch": branch, "commit": commit, "dirty": str(bool(dirty))}
    properties = {"azureml.git." + key: value for key, value in facts.items() if value}
    mlflow = {"repoURL": address, "branch": branch, "commit": commit}
    properties.update(("mlflow.source.git." + key, value) for key, value in mlflow.items() if value)
    return properties


def _origin(config):
    """The address of the remote `origin` in a Git configuration; "" where it has none."""
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
    """The `.git` folder that a folder belongs to, or None; a worktree's `.git` is a file that names it."""
    folder = os.path.abspath(folder)
    while True:
        found = os.path.join(folder, ".git")
        if os.path.isdir(found):
            return found
        named = _text(folder, ".git")
        if named.startswith("gitdir:"):
            return os.path.normpath(os.path.join(folder, named[len("gitdir:"):].strip()))
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _head(repository):
    """`(branch, commit)`; the branch is "" when none is checked out."""
    head = _text(repository, "HEAD").strip()
    if not head.startswith("ref:"):
        return "", head if _HASH.match(head) else ""
    name = head[len("ref:"):].strip()
    commit = _text(repository, name).strip() or _text(_shared(repository), name).strip()
    if not commit:
        rows = (line.split(" ") for line in _text(_shared(repository), "packed-refs").splitlines())
        commit = next((row[0] for row in rows if row[1:] == [name] and _HASH.match(row[0])), "")
    return name.replace("refs/heads/", "", 1), commit


def _shared(repository):
    """Where worktrees keep what they share: refs and config."""
    return os.path.normpath(os.path.join(repository, _text(repository, "commondir").strip() or "."))


def _text(folder, name):
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as source:
            return source.read()
    except OSError:
        return ""


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
