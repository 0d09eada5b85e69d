"""Series worked by hand: what trials logged, in the order in which they did, and which of them each policy stops.

A line of `logged` is read from left to right: a trial's letter and its number. `stopped` has the trial, the interval,
its best and what that was held against. A trial that is stopped logs no more.
"""

import math
from dataclasses import dataclass, field
from typing import Any

NAN, INF = math.nan, math.inf
Logged = list[list[tuple[str, float]]]
Stopped = list[tuple[str, int, float | None, float]]


@dataclass(frozen=True)
class Golden:
    policy: str
    properties: dict[str, Any]
    goal: str
    logged: Logged
    stopped: Stopped = field(default_factory=list)


def same(trials: str, value: float) -> list[tuple[str, float]]:
    return [(trial, value) for trial in trials]


BANDIT = {
    # c: 0.40 * 1.2 = 0.48 < 0.60. d: 0.75 * 1.2 = 0.90, a tie. a is alone at 2 and 3; at 4, 0.70 * 1.2 = 0.84 < 0.95.
    "bandit, factor, maximize": Golden(
        "Bandit",
        {"slack_factor": 0.2},
        "maximize",
        [
            [("a", 0.50), ("b", 0.60), ("c", 0.40), ("d", 0.55)],
            [("a", 0.50), ("b", 0.90), ("c", 0.99), ("d", 0.75)],
            [("a", 0.40), ("b", 0.85), ("d", 0.70)],
            [("b", 0.95), ("a", 0.70), ("d", 0.80)],
        ],
        [("c", 1, 0.40, 0.60), ("a", 4, 0.70, 0.95)],
    ),
    # b: 0.60 is 0.50 * 1.2, a tie. c: above it. a at 2: 0.40 > 0.30 * 1.2 = 0.36.
    "bandit, factor, minimize": Golden(
        "Bandit",
        {"slack_factor": 0.2},
        "minimize",
        [
            [("a", 0.50), ("b", 0.60), ("c", 0.61)],
            [("b", 0.30), ("a", 0.40)],
            [("b", 0.90)],
        ],
        [("c", 1, 0.61, 0.50), ("a", 2, 0.40, 0.30)],
    ),
    # 0.9 - 0.2 is 0.7, though not to a machine that rounds.
    "bandit, amount, maximize": Golden(
        "Bandit",
        {"slack_amount": 0.2},
        "maximize",
        [[("a", 0.9), ("b", 0.7), ("c", 0.69)], [("b", 0.1), ("a", 0.1)]],
        [("c", 1, 0.69, 0.9)],
    ),
    "bandit, amount, minimize": Golden(
        "Bandit",
        {"slack_amount": 0.2},
        "minimize",
        [[("a", 0.1), ("b", 0.3), ("c", 0.31)], [("b", 5.0), ("a", 5.0)]],
        [("c", 1, 0.31, 0.1)],
    ),
    # Due at 4, 6, ...: at 4 b is the first, so a is the one that is held against another.
    "bandit, each second interval from the third on": Golden(
        "Bandit",
        {"slack_amount": 0, "evaluation_interval": 2, "delay_evaluation": 3},
        "maximize",
        [
            [("a", 0.9), ("b", 0.1)],
            [("a", 0.9), ("b", 0.1)],
            [("a", 0.9), ("b", 0.1)],
            [("b", 0.95), ("a", 0.9)],
            [("b", 0.1), ("c", 0.1)],
        ],
        [("a", 4, 0.9, 0.95)],
    ),
    "bandit, the delay itself is due": Golden(
        "Bandit",
        {"slack_factor": 0, "delay_evaluation": 2},
        "minimize",
        [[("a", 1), ("b", 9)], [("a", 1), ("b", 9)]],
        [("b", 2, 9, 1)],
    ),
    # No slack is wide enough for a trial without a number; NaN takes nothing from one that has some.
    "bandit, no number": Golden(
        "Bandit",
        {"slack_factor": 100},
        "maximize",
        [[("n", NAN), ("a", 0.5), ("b", NAN), ("c", INF), ("d", 0.5)], [("a", 0.7), ("d", NAN)], [("n", -INF)]],
        [("b", 1, None, 0.5), ("c", 1, None, 0.5), ("n", 2, None, 0.7)],
    ),
    "bandit, no trial has a number": Golden(
        "Bandit", {"slack_amount": 0}, "minimize", [same("ab", NAN), same("ab", INF)]
    ),
    # -1 * 1.1 < -0.9: below zero a factor leaves no slack, but never stops one that is as good as the best.
    "bandit, factor, below zero": Golden(
        "Bandit",
        {"slack_factor": 0.1},
        "maximize",
        [[("a", -0.9), ("b", -1.0), ("c", -0.9)]],
        [("b", 1, -1.0, -0.9)],
    ),
    "bandit, factor, below zero, minimize": Golden(
        "Bandit",
        {"slack_factor": 0.1},
        "minimize",
        [[("a", -1.0), ("b", -0.9), ("c", -1.0)]],
        [("b", 1, -0.9, -1.0)],
    ),
}

MEDIAN = {
    # At 1: b 0.3 < (0.3 + 0.5) / 2; c 0.4 ties with the median of 0.3 0.4 0.5; d 0.35 < (0.35 + 0.4) / 2.
    # Means at 2: a 0.6, c 0.5, e 0.475; at 3: a 0.4333, c 0.4, e 0.3833. Late, f: 0.4 ties with the median at 1 of
    # 0.3 0.35 0.4 0.4 0.45 0.5; at 2 it is 0.4 < (0.475 + 0.5) / 2.
    "median, maximize": Golden(
        "MedianStopping",
        {},
        "maximize",
        [
            [("a", 0.5), ("b", 0.3), ("c", 0.4), ("d", 0.35)],
            [("a", 0.7), ("c", 0.6)],
            [("a", 0.1), ("c", 0.2)],
            [("e", 0.45), ("e", 0.5), ("e", 0.2)],
            [("f", 0.4), ("f", 0.4), ("f", 0.9)],
        ],
        [("b", 1, 0.3, 0.4), ("d", 1, 0.35, 0.375), ("f", 2, 0.4, 0.4875)],
    ),
    # At 1: b 3 > (1 + 3) / 2; c ties with the median of 1 2 3. Means at 2: a 1.5, c 1.5, then d 1.95, whose best 1.9 is
    # above 1.5.
    "median, minimize": Golden(
        "MedianStopping",
        {},
        "minimize",
        [
            [("a", 1.0), ("b", 3.0), ("c", 2.0)],
            [("a", 2.0), ("c", 1.0)],
            [("a", 6.0), ("c", 6.0)],
            [("d", 2.0), ("d", 1.9)],
        ],
        [("b", 1, 3.0, 2.0), ("d", 2, 1.9, 1.5)],
    ),
    "median, each second interval": Golden(
        "MedianStopping",
        {"evaluation_interval": 2},
        "maximize",
        [[("a", 0.5), ("b", 0.3)], [("a", 0.7), ("b", 0.3)]],
        [("b", 2, 0.3, 0.45)],
    ),
    "median, delayed": Golden(
        "MedianStopping",
        {"delay_evaluation": 3},
        "minimize",
        [[("a", 1), ("b", 5)], [("a", 1), ("b", 5)], [("a", 4), ("b", 5)]],
        [("b", 3, 5, 3.5)],
    ),
    # All are alike: three times 0.1 has the mean 0.1, though not to a machine that rounds.
    "median, all alike": Golden(
        "MedianStopping", {}, "maximize", [same("abc", 0.1), same("abc", 0.1), same("abc", 0.1)]
    ),
    # Without a number means being worse than any: at 1 of 0.5 0.6 none, the median is 0.5.
    "median, no number": Golden(
        "MedianStopping",
        {},
        "maximize",
        [[("a", 0.5), ("b", 0.6), ("c", NAN)]],
        [("c", 1, None, 0.5)],
    ),
    "median, half without a number": Golden("MedianStopping", {}, "minimize", [[("a", 0.5), ("b", NAN)]]),
    # NaN counts as an interval and is left out of the mean: at 2, a has 0.8, b 0.2.
    "median, NaN in between": Golden(
        "MedianStopping",
        {"delay_evaluation": 2},
        "maximize",
        [[("a", 0.8), ("b", NAN)], [("a", NAN), ("b", 0.2)]],
        [("b", 2, 0.2, 0.5)],
    ),
}

TRUNCATION = {
    # One of five goes: e is below 0.2, the worst that stays. g ties with e, i with h. Of ten, two go: j is below 0.05.
    "truncation, maximize": Golden(
        "TruncationSelection",
        {"truncation_percentage": 20},
        "maximize",
        [
            [("a", 0.5), ("b", 0.4), ("c", 0.3), ("d", 0.2), ("e", 0.1), ("f", 0.15), ("g", 0.1)],
            [("h", 0.05), ("i", 0.05), ("j", 0.01)],
        ],
        [("e", 1, 0.1, 0.2), ("h", 1, 0.05, 0.1), ("j", 1, 0.01, 0.05)],
    ),
    # One of two goes, one of three. b is ahead of a at 2 and a is not asked again; at 3 both have 0.5; at 4 a goes.
    "truncation, minimize": Golden(
        "TruncationSelection",
        {"truncation_percentage": 50},
        "minimize",
        [
            [("a", 2.0), ("b", 1.0), ("c", 3.0)],
            [("a", 1.5), ("b", 0.5)],
            [("b", 0.9), ("a", 0.5)],
            [("b", 0.4), ("a", 0.45)],
        ],
        [("c", 1, 3.0, 2.0), ("a", 4, 0.45, 0.4)],
    ),
    "truncation, each third interval from the fifth on": Golden(
        "TruncationSelection",
        {"truncation_percentage": 50, "evaluation_interval": 3, "delay_evaluation": 5},
        "maximize",
        [[("a", 0.9), ("b", 0.1)]] * 7,
        [("b", 6, 0.1, 0.9)],
    ),
    "truncation, all alike": Golden(
        "TruncationSelection", {"truncation_percentage": 99}, "maximize", [same("abcdef", 0.5)] * 3
    ),
    "truncation, no number": Golden(
        "TruncationSelection",
        {"truncation_percentage": 50},
        "minimize",
        [[("a", NAN), ("b", NAN), ("c", 1.0), ("d", NAN)], [("c", 1.0), ("a", NAN)]],
        [("a", 2, None, 1.0)],
    ),
}

ASHA = {
    # Rungs 1, 3, 9. One of the first five stays, two of six to eight, three of nine; ties stay with them. At 3, d is
    # the third of three.
    "asha, maximize": Golden(
        "ASHA",
        {"reduction_factor": 3},
        "maximize",
        [
            [
                ("a", 0.5),
                ("b", 0.6),
                ("c", 0.4),
                ("d", 0.6),
                ("e", 0.55),
                ("f", 0.58),
                ("g", 0.7),
                ("h", 0.65),
                ("i", 0.6),
            ],
            [("a", 0.9), ("b", 0.1), ("d", 0.6)],
            [("a", 0.2), ("b", 0.95), ("d", 0.6)],
        ],
        [("c", 1, 0.4, 0.6), ("e", 1, 0.55, 0.6), ("f", 1, 0.58, 0.6), ("d", 3, 0.6, 0.95)],
    ),
    # Rungs 2 and 4: 8 is the end, and nobody is judged there. At 2, d is worse than both of the two that stay.
    "asha, minimize": Golden(
        "ASHA",
        {"reduction_factor": 2, "min_intervals": 2, "max_intervals": 8},
        "minimize",
        [
            [("a", 5), ("b", 4), ("c", 3)],
            [("a", 4), ("b", 4), ("c", 3.5), ("d", 6), ("d", 5)],
            [("a", 4), ("b", 4), ("c", 3)],
            [("c", 3), ("b", 2), ("a", 2.5)],
            *[[("b", 2), ("c", 3)]] * 4,
        ],
        [("d", 2, 5, 4), ("a", 4, 2.5, 2)],
    ),
}

DEFAULT = {
    "none, nobody is stopped": Golden("Default", {}, "maximize", [[("a", 1.0), ("b", 0.0), ("c", NAN)]] * 3),
}

GOLDEN: dict[str, Golden] = {**BANDIT, **MEDIAN, **TRUNCATION, **ASHA, **DEFAULT}
