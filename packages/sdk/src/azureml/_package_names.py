"""Names of requirements as pip and conda compare them."""
import re

_NAME = re.compile(r"^\s*(?:[A-Za-z0-9_.-]+::)?([A-Za-z0-9][A-Za-z0-9._-]*)")


def package_name(requirement):
    """The comparable name of a requirement: 'Tensorflow_GPU==1.13' gives 'tensorflow-gpu'; '' for an option or URL."""
    if "://" in requirement.split("@")[0] or requirement.lstrip().startswith("-"):
        return ""
    found = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found.group(1)).lower() if found else ""


def with_package(requirements, requirement):
    """The list with `requirement` in place of those of the same name, else at its end."""
    name = package_name(requirement)
    kept = [other for other in requirements if other != requirement and (not name or package_name(other) != name)]
    return kept + [requirement]
