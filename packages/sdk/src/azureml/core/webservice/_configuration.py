import re
from abc import ABC, abstractmethod

from azureml.exceptions import WebserviceException

_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?\Z"


class WebserviceDeploymentConfiguration(ABC):
    """How a web service is to be run. What is None is left to the service."""

    _given_apart = ("tags", "properties", "description")
    """They stand beside the configuration in a request."""

    def __init__(self, type, description=None, tags=None, properties=None, primary_key=None, secondary_key=None,
                 location=None):
        self._webservice_type = type
        self.description = description
        self.tags = tags
        self.properties = properties
        self.primary_key = primary_key
        self.secondary_key = secondary_key
        self.location = location

    @abstractmethod
    def validate_configuration(self):
        """Raise WebserviceException for a value that cannot be."""

    @abstractmethod
    def print_deploy_configuration(self):
        """Print what was set, one line each."""

    @classmethod
    def validate_image(cls, image):
        """Raise WebserviceException for an image that cannot be deployed."""
        if image is None:
            raise WebserviceException("image is missing: give the Image that Image.create returned.")
        if image.creation_state != "Succeeded":
            raise WebserviceException("The image %s is in state %r and cannot be deployed; only one that was created "
                                      "can." % (image.id, image.creation_state))

    def _to_wire(self):
        """The parameters that were given, by their names."""
        return {name: value for name, value in sorted(vars(self).items())
                if value is not None and not name.startswith("_") and name not in self._given_apart}

    def _print(self, names):
        for name in names:
            value = getattr(self, name)
            if value is not None:
                print("%s: %s" % (name, value))


def check_name(name):
    """WebserviceException for a name that no web service can have."""
    if not isinstance(name, str) or not 3 <= len(name) <= 32 or not re.match(_NAME, name):
        raise WebserviceException(
            "The web service name %r is not valid. It has 3 to 32 characters: lower case letters, digits and '-'; it "
            "begins with a letter and ends with a letter or digit." % (name,))


def check_number(name, value, above=None, at_least=None, whole=False):
    """WebserviceException naming the argument where `value` is given and is no such number."""
    if value is None:
        return
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0
    right = is_number and (not whole or value == int(value)) and (above is None or value > above) and \
        (at_least is None or value >= at_least)
    if not right:
        bound = "above %s" % above if above is not None else "of at least %s" % at_least
        raise WebserviceException("%s must be a %s %s, got %r." % (
            name, "whole number" if whole else "number", bound, value))


def check_together(names, values, what):
    """WebserviceException where some of the arguments are given and others, which belong to them, are not."""
    missing = [name for name, value in zip(names, values) if not value]
    if missing and len(missing) < len(names):
        raise WebserviceException("%s go together for %s; %s is missing." % (
            ", ".join(names), what, " and ".join(missing)))
