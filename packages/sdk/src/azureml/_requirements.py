"""Requirement lines as pip and conda read them."""
import os
import re

from azureml.exceptions import UserErrorException

_NAME = r"^\s*(?:[A-Za-z0-9_.-]+::)?([A-Za-z0-9][A-Za-z0-9._-]*)"
_DEEPEST = 10


def package_name(requirement):
    """Normalised name of a requirement: 'Tensorflow_GPU==1.13' gives 'tensorflow-gpu'; '' for an option or URL."""
    if "://" in requirement.split("@")[0] or requirement.lstrip().startswith("-"):
        return ""
    found = re.match(_NAME, requirement)
    return re.sub(r"[-_.]+", "-", found.group(1)).lower() if found else ""


def with_package(requirements, requirement):
    """Return the list with `requirement` in place of those with the same package name."""
    name = package_name(requirement)
    kept = [other for other in requirements if other != requirement and (not name or package_name(other) != name)]
    return kept + [requirement]


def read_requirements(path, depth=0):
    """Lines of a pip requirements file and of the files it includes with -r, without comments, continuation lines
    joined."""
    if not os.path.isfile(path):
        raise UserErrorException("There is no pip requirements file at %r." % str(path))
    if depth > _DEEPEST:
        raise UserErrorException("The pip requirements file %r names itself through its -r lines." % str(path))
    with open(path, encoding="utf-8-sig") as file:
        text = file.read().replace("\\\r\n", " ").replace("\\\n", " ")
    lines = (line.split(" #")[0].strip() for line in text.splitlines())
    return expanded([line for line in lines if line and not line.startswith("#")], os.path.dirname(path), depth)


def expanded(lines, folder, depth=0):
    """Replace every `-r FILE` line, relative to `folder`, with the lines of that file."""
    found = []
    for line in lines:
        option = next((name for name in ("--requirement", "-r") if line.startswith(name)), None)
        named = line[len(option):].lstrip(" =").strip() if option else ""
        if named:
            found.extend(read_requirements(os.path.join(folder, named), depth + 1))
        else:
            found.append(line)
    return found
