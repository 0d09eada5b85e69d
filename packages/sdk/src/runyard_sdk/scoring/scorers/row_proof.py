"""Whether a model gives rows of several requests together what it gives each of them alone."""
import random

# So many groups are computed both ways before any is computed together alone.
GROUPS_OF_THE_PROOF = 16
# From then on one group in so many is looked at again, and of it so many requests: about one call in a hundred.
GROUPS_BETWEEN_LOOKS = 300
REQUESTS_LOOKED_AT = 4
# Of the largest value of an output: other kernels are taken for other numbers of rows, and the last bits differ.
TOLERANCE = 1e-5


class RowProof(object):
    """The evidence about one computation of a model. The first disagreement is final."""

    def __init__(self):
        self.is_refuted, self._agreed, self._until_look = False, 0, GROUPS_BETWEEN_LOOKS

    @property
    def is_given(self):
        return not self.is_refuted and self._agreed >= GROUPS_OF_THE_PROOF

    def agreed(self):
        self._agreed += 1

    def refuted(self):
        self.is_refuted = True

    def wants_a_look(self):
        """Whether this group, of a computation whose proof is given, is to be checked nevertheless."""
        self._until_look -= 1
        if self._until_look > 0:
            return False
        self._until_look = GROUPS_BETWEEN_LOOKS
        return True


def some_of(jobs):
    """Places of the jobs to look at: others each time, since it may be one among many that suffers."""
    return random.sample(range(len(jobs)), min(REQUESTS_LOOKED_AT, len(jobs)))


def stranger(job):
    """Rows of the same form, and unlike those of the job in order and size. Whole numbers change places only: they may
    count something, and another one may not be there. None where nothing can be changed."""
    changed = [_changed(array) for array in job]
    return None if are_equal(changed, job) else changed


def are_equal(ours, theirs):
    """Whether two lists of arrays agree."""
    return len(ours) == len(theirs) and all(map(_equal, ours, theirs))


def _changed(array):
    if array.dtype.kind not in "iuf":
        return array
    backwards = array[..., ::-1].copy() if array.ndim > 1 else array
    return backwards * array.dtype.type(1.5) + array.dtype.type(1) if array.dtype.kind == "f" else backwards


def _equal(one, other):
    import numpy
    one, other = numpy.asarray(one), numpy.asarray(other)
    if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
        return False
    if one.dtype.kind not in "fc":
        return bool((one == other).all())
    finite = numpy.abs(other[numpy.isfinite(other)])
    share = max(TOLERANCE, 2 * float(numpy.finfo(other.dtype).eps))
    return bool(numpy.allclose(one, other, rtol=0, atol=share * float(finite.max()) if finite.size else 0,
                               equal_nan=True))
