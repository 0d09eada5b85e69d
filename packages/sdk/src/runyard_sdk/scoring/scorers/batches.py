"""Batching: requests of one frame computed together, where that changes only the time it takes."""

import random
import sys

from runyard_sdk.scoring.answers import Refused, refusal
from runyard_sdk.scoring.failure import one_line

# Copying large inputs together costs more than it saves.
LARGEST_TOGETHER = 256 * 1024
# Groups computed both ways before any is only computed together.
GROUPS_OF_THE_PROOF = 16
# Afterwards one group in so many is checked again, with so many of its requests: about one call in a hundred.
GROUPS_BETWEEN_CHECKS = 300
REQUESTS_CHECKED = 4
# Relative to the largest output value: kernels depend on the number of rows, and the last bits differ.
TOLERANCE = 1e-5


def answer_in_groups(requests, read, answer_group, refuse=refusal):
    """Answers in the order of the requests.

    read(request) -> (key, job), or raises Refused. answer_group(key, jobs) -> one answer per job of that key; a group
    that fails is answered one by one, so that a bad request affects no other.
    """
    answers, groups = [None] * len(requests), {}
    for at, request in enumerate(requests):
        try:
            key, job = read(request)
        except Refused as error:
            answers[at] = refuse(error.status, error.message)
            continue
        except RecursionError:
            answers[at] = refuse(400, "The body is nested too deeply.")
            continue
        alone = at if len(request.body) > LARGEST_TOGETHER else None
        groups.setdefault((key, alone), []).append((at, job))
    for (key, _), members in groups.items():
        answered = _answered(key, [job for _, job in members], answer_group, refuse)
        for (at, _), answer in zip(members, answered):
            answers[at] = answer
    return answers


def _answered(key, jobs, answer_group, refuse):
    try:
        return answer_group(key, jobs)
    except Refused as error:
        if len(jobs) == 1:
            return [refuse(error.status, error.message)]
    except Exception:
        if len(jobs) == 1:
            raise
    return [_answered(key, [job], answer_group, refuse)[0] for job in jobs]


class RowsTogether(object):
    """Calls a model once for the rows of several requests.

    A model may mix rows (read them as a sequence, or normalise over the batch), and an answer would then depend on
    other requests. So the first groups are computed both ways, and some later ones again; if results differ, each
    request is computed alone from then on, and the log says so.
    """

    def __init__(self, compute, is_row_by_row=False):
        """compute(key, inputs) -> outputs; both are lists of arrays with rows as first dimension. key[0] identifies the
        computation. is_row_by_row: guaranteed by the library, no check needed."""
        self._compute, self._is_row_by_row, self._proofs = compute, is_row_by_row, {}

    def outputs(self, key, jobs):
        """List of outputs for each job; jobs are lists of arrays that can be concatenated."""
        if len(jobs) == 1 or not _have_rows(jobs):
            return self._each_alone(key, jobs)
        if self._is_row_by_row:
            return self._together(key, jobs)
        proof = self._proofs.setdefault(key[0], RowProof())
        if proof.is_given and not proof.needs_check():
            return self._together(key, jobs)
        if proof.is_given:
            return self._checked(proof, key, jobs)
        alone = self._each_alone(key, jobs)
        if not proof.is_refuted:
            self._try(proof, key, jobs, alone)
        return alone

    def _each_alone(self, key, jobs):
        return [self._compute(key, job) for job in jobs]

    def _together(self, key, jobs):
        import numpy
        counts = [len(job[0]) for job in jobs]
        joined = self._compute(key, [numpy.concatenate(arrays) for arrays in zip(*jobs)])
        if not all(numpy.ndim(array) and len(array) == sum(counts) for array in joined):
            raise ValueError("The model gives another number of rows than it was given.")
        parts, begin = [], 0
        for count in counts:
            parts.append([array[begin:begin + count] for array in joined])
            begin += count
        return parts

    def _checked(self, proof, key, jobs):
        together = self._together(key, jobs)
        if all(are_equal(together[at], self._compute(key, jobs[at])) for at in some_of(jobs)):
            return together
        _refute(proof, "they gave other results than alone")
        return self._each_alone(key, jobs)

    def _try(self, proof, key, jobs, alone):
        jobs, alone = self._with_altered_rows(key, jobs, alone)
        if all(are_equal(job, jobs[0]) for job in jobs):
            return  # they prove nothing: the mean of equal rows is the row itself
        try:
            agree = all(map(are_equal, self._together(key, jobs), alone))
        except Exception as error:
            return _refute(proof, "that failed: %s" % one_line(error))
        if agree:
            proof.agreed()
        else:
            _refute(proof, "they gave other results than alone")

    def _with_altered_rows(self, key, jobs, alone):
        """Compare with an artificial request: requests are often alike, which hides effects on others."""
        other = altered_rows(jobs[0])
        try:
            return (jobs, alone) if other is None else (jobs + [other], alone + [self._compute(key, other)])
        except Exception:  # the model rejects such rows
            return jobs, alone


def _refute(proof, why):
    proof.refuted()
    sys.stderr.write("Runyard: requests that came at the same time were computed together once, to save time, and %s. "
                     "Each is computed alone from now on.\n" % why)


def _have_rows(jobs):
    """Whether all inputs of each job have the same number of rows, at least one."""
    return all(job and all(array.ndim and len(array) == len(job[0]) for array in job) and len(job[0]) for job in jobs)


class RowProof(object):
    """Evidence whether a computation treats rows independently. The first difference is final."""

    def __init__(self):
        self.is_refuted, self._agreed, self._until_check = False, 0, GROUPS_BETWEEN_CHECKS

    @property
    def is_given(self):
        return not self.is_refuted and self._agreed >= GROUPS_OF_THE_PROOF

    def agreed(self):
        self._agreed += 1

    def refuted(self):
        self.is_refuted = True

    def needs_check(self):
        """Whether to check this group although the computation is proven."""
        self._until_check -= 1
        if self._until_check > 0:
            return False
        self._until_check = GROUPS_BETWEEN_CHECKS
        return True


def some_of(jobs):
    """Positions of jobs to check: different ones each time, since only one of many may be affected."""
    return random.sample(range(len(jobs)), min(REQUESTS_CHECKED, len(jobs)))


def altered_rows(job):
    """Rows of the same form, different in order and size. Integers are only permuted: they may be indices, and others
    may not exist. None if nothing can be changed."""
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
