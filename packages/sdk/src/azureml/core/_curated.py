"""The environments that every workspace has: v1's curated names, with packages that install today."""
from azureml.exceptions import UserErrorException

PREFIX = "AzureML-"
VERSION = "1"
_NEAR = 5


def is_curated_name(name):
    """Whether only a curated environment may have this name."""
    return isinstance(name, str) and name.lower().startswith(PREFIX.lower())


def curated_names():
    from azureml.core._curated_table import TABLE
    return [PREFIX + name for name in sorted(TABLE)]


def curated_body(name):
    """The stored form of a curated environment; UserErrorException, with the names near it, for an unknown one."""
    from azureml.core._curated_table import TABLE
    from azureml.core.conda_dependencies import CondaDependencies
    from azureml.core.environment import Environment
    python, packages = TABLE[_known(name)]
    made = Environment(name)
    made.environment_variables = {}
    made.python.conda_dependencies = CondaDependencies.create(
        python_version=python, pip_packages=["azureml-defaults"] + list(packages))
    return made._to_object()


def _known(name):
    """The name in the table; public code writes some of them in other letter cases."""
    names = {known.lower(): known[len(PREFIX):] for known in curated_names()}
    if name.lower() not in names:
        raise UserErrorException("There is no environment %r. Curated environments with a name like it: %s. "
                                 "Environment.list(workspace) has all of them." % (name, ", ".join(_near(name))))
    return names[name.lower()]


def _near(name):
    from difflib import SequenceMatcher

    def likeness(known):
        return SequenceMatcher(None, known.lower(), name.lower()).ratio()

    return sorted(curated_names(), key=likeness, reverse=True)[:_NEAR]
