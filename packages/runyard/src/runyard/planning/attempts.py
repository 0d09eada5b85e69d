"""How often a run may be started again when a node of it is lost: Runyard's own addition, off unless asked for."""

import re
from collections.abc import Mapping
from typing import Any

from runyard.errors import InvalidArgument
from runyard.planning.variables import user_variables

ATTEMPTS_VARIABLE = "RUNYARD_MAX_ATTEMPTS"
_MOST_ATTEMPTS = 100
_SHORT_NUMBER = re.compile("[0-9]{1,9}")


def max_attempts_of(definition: Mapping[str, Any]) -> int:
    """How many attempts the run may have, the first included. InvalidArgument for what is no such number."""
    given = user_variables(definition).get(ATTEMPTS_VARIABLE, "").strip()
    if not given:
        return 1
    if not _SHORT_NUMBER.fullmatch(given) or not 1 <= int(given) <= _MOST_ATTEMPTS:
        raise InvalidArgument(
            f"{ATTEMPTS_VARIABLE} must be a whole number from 1 to {_MOST_ATTEMPTS}, got {given[:40]!r}.",
            hint="It is one of the run's environment_variables and counts the first attempt too.",
        )
    return int(given)
