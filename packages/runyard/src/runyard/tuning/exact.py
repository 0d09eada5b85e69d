"""Numbers as they are written, so that 0.9 - 0.2 is 0.7 and a tie by hand is a tie here."""

from fractions import Fraction


def as_written(value: float) -> Fraction:
    return Fraction(repr(value))


def middle(low: float, high: float) -> float:
    return low if low == high else float((as_written(low) + as_written(high)) / 2)
