"""Steps of a file dataset (skip, take, sample, filter): which of its files, sorted by path, it has."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runyard.errors import InvalidArgument
from runyard.model.data import SourceFile, StoredFile
from runyard.planning.data_filter import Row, predicate

MOST_STEPS = 100


@dataclass(frozen=True)
class FoundFile:
    """File of a dataset, with its record of the store."""

    source: SourceFile
    stored: StoredFile


Step = Callable[[Sequence[FoundFile]], Sequence[FoundFile]]


def steps_of(given: Any) -> list[Step]:
    """Compile the steps. Raises InvalidArgument naming the step that is wrong."""
    if not isinstance(given, list) or len(given) > MOST_STEPS:
        raise InvalidArgument(f"The steps of a dataset are a list of at most {MOST_STEPS}.")
    return [_step(step) for step in given]


def _step(step: Any) -> Step:
    if not isinstance(step, list) or not step or not isinstance(step[0], str) or step[0] not in _STEPS:
        raise InvalidArgument(
            f"{ascii(step)[:80]} is not a step of a file dataset.", hint=f"Known: {', '.join(_STEPS)}."
        )
    try:
        return _STEPS[step[0]](*step[1:])
    except TypeError:
        raise InvalidArgument(f"The step {step[0]!r} has {len(step) - 1} arguments, which is not right.") from None


def _skip(count: Any) -> Step:
    number = _count("skip", count)
    return lambda files: files[number:]


def _take(count: Any) -> Step:
    number = _count("take", count)
    return lambda files: files[:number]


def _sample(probability: Any, seed: Any, keep: Any = True) -> Step:
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise InvalidArgument(f"probability must be a number from 0 to 1, got {ascii(probability)[:80]}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or not isinstance(keep, bool):
        raise InvalidArgument(f"seed must be a whole number, got {ascii(seed)[:80]}.")

    def sample(files: Sequence[FoundFile]) -> Sequence[FoundFile]:
        chances = random.Random(seed)
        return [file for file in files if (chances.random() < probability) is keep]

    return sample


def _filter(expression: Any) -> Step:
    is_wanted = predicate(expression)
    return lambda files: [file for file in files if is_wanted(_row(file))]


def _row(file: FoundFile) -> Row:
    return {
        "Path": "/" + file.source.path,
        "Size": file.stored.size,
        "LastModifiedTime": file.stored.modified_at,
        "CanSeek": file.stored.is_ranged,
    }


def _count(step: str, count: Any) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InvalidArgument(f"count of {step} must be a whole number from 0 to 2**63, got {ascii(count)[:80]}.")
    return count


_STEPS: Mapping[str, Callable[..., Step]] = {"skip": _skip, "take": _take, "sample": _sample, "filter": _filter}
