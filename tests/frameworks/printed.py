"""What the examples print when their run has ended."""

import ast
from typing import Any


def last_value(printed: str, metric: str) -> Any:
    value = ast.literal_eval(_after(printed, "Metrics: "))[metric]
    return value[-1] if isinstance(value, list) else value


def run_id(printed: str) -> str:
    return _after(printed, "RunId: ")


def _after(printed: str, beginning: str) -> str:
    return next(line.removeprefix(beginning) for line in printed.splitlines() if line.startswith(beginning))
