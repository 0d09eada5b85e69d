"""config.json: find it as SDK v1 does, read it, write it."""

import json
import os

from runyard_sdk.errors import InvalidArgument

CANDIDATES = (".azureml/config.json", ".azureml/project.json", "aml_config/config.json", "aml_config/project.json",
              "config.json", "project.json")


def find(start, file_name=None):
    """Config file for a folder, or None.

    Looks for each candidate name from `start` up to the root before trying the next name.
    """
    candidates = CANDIDATES
    if file_name:
        candidates = tuple(folder + file_name for folder in (".azureml/", "aml_config/", ""))
    for candidate in candidates:
        folder = os.path.abspath(start)
        while True:
            path = os.path.join(folder, candidate)
            if os.path.isfile(path):
                return path
            above = os.path.dirname(folder)
            if above == folder:
                break
            folder = above
    return None


def read(path):
    """`(subscription_id, resource_group, workspace_name)` of a config file. Raises InvalidArgument."""
    try:
        with open(path, encoding="utf-8-sig") as source:
            found = json.load(source)
    except OSError as error:
        raise InvalidArgument("The workspace configuration file {} cannot be read: {}.".format(path, error.strerror))
    except ValueError as error:
        raise InvalidArgument("The workspace configuration file {} is not valid JSON: {}.".format(path, error),
                              hint=_EXPECTED)
    if not isinstance(found, dict):
        raise InvalidArgument("The workspace configuration file {} does not hold an object.".format(path),
                              hint=_EXPECTED)
    if found.get("Scope"):
        return _from_scope(path, found["Scope"])
    keys = ("subscription_id", "resource_group", "workspace_name")
    missing = [key for key in keys if not isinstance(found.get(key), str) or not found[key]]
    if missing:
        raise InvalidArgument("The workspace configuration file {} lacks {}.".format(path, ", ".join(missing)),
                              hint=_EXPECTED)
    return tuple(found[key] for key in keys)


def write(folder, file_name, subscription_id, resource_group, workspace_name):
    """Write a config file below `folder`, in `aml_config/` if that exists, else `.azureml/`; return its path."""
    inside = "aml_config" if os.path.isdir(os.path.join(folder, "aml_config")) else ".azureml"
    target = os.path.join(folder, inside, file_name or "config.json")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    content = {"subscription_id": subscription_id, "resource_group": resource_group, "workspace_name": workspace_name}
    partial = "{}.{}".format(target, os.getpid())
    with open(partial, "w", encoding="utf-8") as sink:
        json.dump(content, sink, indent=4)
    os.replace(partial, target)
    return target


_EXPECTED = 'It should hold {"subscription_id": "...", "resource_group": "...", "workspace_name": "..."}.'


def _from_scope(path, scope):
    parts = str(scope).strip("/").split("/")
    named = dict(zip((part.lower() for part in parts[::2]), parts[1::2]))
    try:
        return named["subscriptions"], named["resourcegroups"], named["workspaces"]
    except KeyError as missing:
        raise InvalidArgument("Scope {!r} in {} names no {}.".format(scope, path, missing.args[0]),
                              hint="It should read /subscriptions/S/resourceGroups/R/providers/"
                                   "Microsoft.MachineLearningServices/workspaces/W.")
