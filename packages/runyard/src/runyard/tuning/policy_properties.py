from collections.abc import Callable, Mapping
from typing import Any

from runyard.core.definitions.fields import whole_number
from runyard.core.definitions.sweep import PolicyProperties
from runyard.errors import InvalidArgument
from runyard.tuning.checking import finite_number, mapping, no_others, one_of, shown

_Given = Mapping[str, Any]


def checked_policy(raw: object) -> tuple[str, PolicyProperties]:
    """Name and properties of the policy, with the defaults of SDK v1. Raises InvalidArgument."""
    policy = mapping(raw, "policy")
    name = one_of(policy.get("name", "Default"), "The policy", _CHECKED)
    given = {
        key: value
        for key, value in mapping(policy.get("properties"), "properties of policy").items()
        if value is not None
    }
    return name, _CHECKED[name](given)


def _nothing(given: _Given) -> PolicyProperties:
    no_others(given, "NoTerminationPolicy", ())
    return PolicyProperties()


def _bandit(given: _Given) -> PolicyProperties:
    no_others(given, "BanditPolicy", ("slack_factor", "slack_amount", *_SCHEDULE))
    slack = {name: given[name] for name in ("slack_factor", "slack_amount") if name in given}
    if len(slack) != 1:
        raise InvalidArgument(
            f"BanditPolicy takes exactly one of slack_factor and slack_amount, got {'both' if slack else 'neither'}.",
            hint="slack_factor is a part of the best run's value, slack_amount a distance from it.",
        )
    for name, value in slack.items():
        if finite_number(value, f"{name} of BanditPolicy") < 0:
            raise InvalidArgument(f"{name} of BanditPolicy must be at least 0, got {shown(value)}.")
    return PolicyProperties(*_schedule(given, "BanditPolicy"), **slack)


def _median_stopping(given: _Given) -> PolicyProperties:
    no_others(given, "MedianStoppingPolicy", _SCHEDULE)
    return PolicyProperties(*_schedule(given, "MedianStoppingPolicy"))


def _truncation_selection(given: _Given) -> PolicyProperties:
    owner = "TruncationSelectionPolicy"
    no_others(given, owner, ("truncation_percentage", *_SCHEDULE))
    percentage = whole_number(
        given.get("truncation_percentage"), f"truncation_percentage of {owner}", at_least=1, at_most=99
    )
    return PolicyProperties(*_schedule(given, owner), truncation_percentage=percentage)


def _asha(given: _Given) -> PolicyProperties:
    no_others(given, "AshaPolicy", ("reduction_factor", "min_intervals", "max_intervals"))
    factor = whole_number(given.get("reduction_factor", 3), "reduction_factor of AshaPolicy", at_least=2)
    first = whole_number(given.get("min_intervals", 1), "min_intervals of AshaPolicy", at_least=1)
    if "max_intervals" not in given:
        return PolicyProperties(reduction_factor=factor, min_intervals=first)
    last = whole_number(given["max_intervals"], "max_intervals of AshaPolicy", at_least=1)
    if last <= first:
        raise InvalidArgument(
            f"max_intervals of AshaPolicy must be above min_intervals, got {last} and {first}: no run would be judged."
        )
    return PolicyProperties(reduction_factor=factor, min_intervals=first, max_intervals=last)


_SCHEDULE = ("evaluation_interval", "delay_evaluation")


def _schedule(given: _Given, owner: str) -> tuple[int, int]:
    every, delay = given.get("evaluation_interval", 1), given.get("delay_evaluation", 0)
    return (
        whole_number(every, f"evaluation_interval of {owner}", at_least=1),
        whole_number(delay, f"delay_evaluation of {owner}", at_least=0),
    )


_CHECKED: Mapping[str, Callable[[_Given], PolicyProperties]] = {
    "Default": _nothing,
    "Bandit": _bandit,
    "MedianStopping": _median_stopping,
    "TruncationSelection": _truncation_selection,
    "ASHA": _asha,
}
