"""Requests of one frame computed together, where that changes nothing but the time it takes."""
from runyard_sdk.scoring.answers import Refused, refusal

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

    A model may mix rows (one that reads them as a sequence, one that normalizes over the batch). So the first requests
    that could be put together are computed both ways; only where the results agree is it done from then on.
    """

    def __init__(self, compute):
        """compute(key, inputs) -> outputs; inputs and outputs are lists of arrays with the rows as first dimension.
        key[0] says which of the model's computations it is."""
        self._compute, self._is_proved = compute, {}

    def outputs(self, key, jobs):
        """For each of the jobs, which are lists of arrays that fit together, the list of its outputs."""
        proved = self._is_proved.get(key[0])
        if proved and len(jobs) > 1 and _have_rows(jobs):
            return self._together(key, jobs)
        alone = [self._compute(key, job) for job in jobs]
        if proved is None and len(jobs) > 1 and _have_rows(jobs):
            self._try(key, jobs, alone)
        return alone

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

    def _try(self, key, jobs, alone):
        if all(_are_equal(job, jobs[0]) for job in jobs):
            # Equal rows prove nothing: their mean is the row itself.
            jobs = [jobs[0], [_changed(array) for array in jobs[0]]]
            if _are_equal(*jobs):
                return
            try:
                alone = [alone[0], self._compute(key, jobs[1])]
            except Exception:  # the changed rows make no sense to the model: the next requests may differ
                return
        try:
            together = self._together(key, jobs)
        except Exception:
            self._is_proved[key[0]] = False
        else:
            self._is_proved[key[0]] = all(map(_are_equal, together, alone))


def _have_rows(jobs):
    """Whether each input of each job has as many rows as the job's others, and at least one."""
    return all(job and all(array.ndim and len(array) == len(job[0]) for array in job) and len(job[0]) for job in jobs)


def _changed(array):
    if array.dtype.kind not in "iuf":
        return array
    backwards = array[..., ::-1].copy() if array.ndim > 1 else array
    if array.dtype.kind == "f" and (backwards == array).all():
        return array * array.dtype.type(1.5) + array.dtype.type(1)
    return backwards


def _are_equal(ours, theirs):
    return len(ours) == len(theirs) and all(map(_equal, ours, theirs))


def _equal(one, other):
    import numpy
    one, other = numpy.asarray(one), numpy.asarray(other)
    if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
        return False
    if one.dtype.kind in "fc":
        # The last bits differ with the number of rows: other kernels are taken.
        return bool(numpy.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True))
    return bool((one == other).all())
