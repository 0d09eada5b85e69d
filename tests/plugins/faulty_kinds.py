"""Run kinds that do harm where they can: one fails whenever it is asked, two want the runs of others."""

from typing import Any

from runyard.runs.kinds.kind import ParentKind


class FaultyKind(ParentKind):
    name = "faulty"
    type = "toy.faulty"
    title = "faulty run"

    def check_any(self, submission: Any) -> None:
        raise ZeroDivisionError

    def reconcile(self, own: Any, unfinished: Any) -> bool:
        raise ZeroDivisionError

    def child_ended(self, child: Any) -> None:
        raise ZeroDivisionError

    def child_logged(self, child: Any, delivered: Any) -> None:
        raise ZeroDivisionError


class ThiefKind(ParentKind):
    name = "thief"
    type = "hyperdrive"
    title = "thief"


class GreedyKind(ParentKind):
    name = "greedy"
    type = "azureml.scriptrun"
    title = "greedy"
