"""Location of the service: given by RUNYARD_URL, found in this home, or started."""

import json
import os

from runyard_sdk import API, WIRE, __version__, start
from runyard_sdk.errors import ServiceUnavailable
from runyard_sdk.home import boot_id, ensured_home, home_folder, host_name, is_of_home
from runyard_sdk.start import as_numbers


class Service:
    """A URL and its token. `fixed` is true where the URL was given, so none may be started."""

    def __init__(self, url, token, fixed=False):
        self.url, self.token, self.fixed = url.rstrip("/"), token, fixed


def locate(refused=None):
    """Return the service to use; start it if this home has none.

    `refused` is a Service that did not answer: its URL is returned again only if it was given by RUNYARD_URL, or if it
    was restarted.
    """
    given = os.environ.get("RUNYARD_URL")
    if given:
        return _given(given, refused)
    home = ensured_home()
    found = running(home)
    if found and not _is_older(found) and (refused is None or not _same(found, refused)):
        return Service(found["url"], found["token"])
    found = start.ensure(home, lambda: _usable(home))
    return Service(found["url"], found["token"])


def running(home=None):
    """Content of `service.json` for a service of this host and boot; None if there is none."""
    path = os.path.join(home or home_folder(), "service.json")
    try:
        with open(path) as source:
            if os.fstat(source.fileno()).st_uid != os.geteuid():
                return None  # its writer would get our token and our code
            found = json.load(source)
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("host") != host_name() or found.get("boot") != boot_id():
        return None
    if not is_of_home(found, os.path.dirname(path)):
        return None
    _check_wire(found)
    return found


def _given(url, refused):
    inside = os.environ.get("AZUREML_RUN_TOKEN")
    token = os.environ.get("RUNYARD_TOKEN") or inside
    if not token:
        raise ServiceUnavailable("RUNYARD_URL is set to {!r} and RUNYARD_TOKEN is not.".format(url),
                                 hint="Set RUNYARD_TOKEN to the token that the service's operator gave you.")
    if inside and refused is not None:
        found = running()
        if found:
            url = found["url"]
    return Service(url, token, fixed=True)


def _usable(home):
    found = running(home)
    if found and start.answers(found) and not _is_older(found):
        return found
    return None


def _is_older(found):
    return start.build_of(found) < (as_numbers(__version__), API) and start.can_be_newer(found)


def _same(found, refused):
    return found["url"].rstrip("/") == refused.url


def _check_wire(found):
    wire = str(found.get("wire", WIRE))
    if wire != WIRE:
        raise ServiceUnavailable(
            "This SDK ({}) speaks wire {} and the running service ({}) speaks wire {}.".format(
                __version__, WIRE, found.get("version"), wire),
            hint="Upgrade the older one: pip install --upgrade runyard-sdk, or pip install --upgrade runyard "
                 "and then: runyard down && runyard up.")
