"""Requests of one frame computed together, where that changes nothing but the time it takes."""
import sys

from runyard_sdk.scoring.answers import Refused, refusal
from runyard_sdk.scoring.failure import one_line
from runyard_sdk.scoring.scorers.row_proof import RowProof, are_equal, some_of, stranger

# Copying large inputs together costs more than it saves.
LARGEST_TOGETHER = 256 * 1024


def answer_in_groups(requests, read, answer_group, refuse=refusal):
    """Answers in the order of the requests.

    read(request) -> (key, job), or raises Refused. answer_group(key, jobs) -> an answer for each of the jobs, which
    all have that key; a group that fails is answered one by one, so that a bad request spoils no other.
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

    A model may mix rows (one that reads them as a sequence, one that normalizes over the batch), and an answer would
    then depend on whose requests came beside. So the first groups of requests are computed both ways, and some of the
    later ones again; where the results disagree, each request is computed alone from then on, and the log says so.
    """

    def __init__(self, compute, is_row_by_row=False):
        """compute(key, inputs) -> outputs; inputs and outputs are lists of arrays with the rows as first dimension.
        key[0] says which of the model's computations it is. is_row_by_row: its library promises it, without proof."""
        self._compute, self._is_row_by_row, self._proofs = compute, is_row_by_row, {}

    def outputs(self, key, jobs):
        """For each of the jobs, which are lists of arrays that fit together, the list of its outputs."""
        if len(jobs) == 1 or not _have_rows(jobs):
            return self._each_alone(key, jobs)
        if self._is_row_by_row:
            return self._together(key, jobs)
        proof = self._proofs.setdefault(key[0], RowProof())
        if proof.is_given and not proof.wants_a_look():
            return self._together(key, jobs)
        if proof.is_given:
            return self._looked_at(proof, key, jobs)
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

    def _looked_at(self, proof, key, jobs):
        together = self._together(key, jobs)
        if all(are_equal(together[at], self._compute(key, jobs[at])) for at in some_of(jobs)):
            return together
        _refute(proof, "they gave other results than alone")
        return self._each_alone(key, jobs)

    def _try(self, proof, key, jobs, alone):
        jobs, alone = self._with_a_stranger(key, jobs, alone)
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

    def _with_a_stranger(self, key, jobs, alone):
        """Requests are often alike, and alike ones hide what a model does to others."""
        other = stranger(jobs[0])
        try:
            return (jobs, alone) if other is None else (jobs + [other], alone + [self._compute(key, other)])
        except Exception:  # such rows make no sense to the model
            return jobs, alone


def _refute(proof, why):
    proof.refuted()
    sys.stderr.write("Runyard: requests that came at the same time were computed together once, to save time, and %s. "
                     "Each is computed alone from now on.\n" % why)


def _have_rows(jobs):
    """Whether each input of each job has as many rows as the job's others, and at least one."""
    return all(job and all(array.ndim and len(array) == len(job[0]) for array in job) and len(job[0]) for job in jobs)
