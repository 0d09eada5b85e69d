from decimal import Context, Decimal

# Decimal arithmetic, so that 0.9 - 0.2 is 0.7 and a tie calculated by hand is a tie here.
# 800 digits hold the exact sum of any two floats, from 1e308 down to 5e-324.
_EXACT = Context(prec=800)
_ROUNDED = Context(prec=50)


def as_written(value: float) -> Decimal:
    return Decimal(repr(value))


def plus(one: Decimal, other: Decimal) -> Decimal:
    return _EXACT.add(one, other)


def times(one: Decimal, other: Decimal) -> Decimal:
    return _EXACT.multiply(one, other)


def distance(one: Decimal, other: Decimal) -> Decimal:
    return abs(_EXACT.subtract(one, other))


def share(total: Decimal, count: int) -> float:
    """`total` divided by `count`."""
    return float(_ROUNDED.divide(total, count))


def middle(low: float, high: float) -> float:
    return low if low == high else share(plus(as_written(low), as_written(high)), 2)
