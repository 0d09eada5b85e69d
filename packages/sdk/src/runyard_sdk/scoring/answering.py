"""From requests to answers with any scorer: nothing that a script does gets past here."""
import sys
from time import perf_counter

from runyard_sdk.scoring.answers import Refused, Unanswerable, failure, refusal
from runyard_sdk.scoring.failure import log_exception, one_line
from runyard_sdk.scoring.output import flush_output

LARGEST_ANSWER = 512 << 20


def answer_all(scorer, requests):
    """[(id, answer, microseconds in the scorer)], one for each request, in their order.

    Where several together fail, each is asked alone: a bad one does not hurt its neighbours.
    """
    began = perf_counter()
    answers = _scored(scorer, requests)
    if answers is None:
        return [answered for request in requests for answered in answer_all(scorer, [request])]
    flush_output()
    microseconds = int((perf_counter() - began) * 1e6)
    return [(request.id, _sendable(answer), microseconds) for request, answer in zip(requests, answers)]


def _scored(scorer, requests):
    """Their answers; None where several together failed."""
    try:
        answers = scorer.score(requests)
        if len(answers) != len(requests):
            raise ValueError("The scorer gave %d answers to %d requests." % (len(answers), len(requests)))
        return answers
    except BaseException as error:  # SystemExit in a script ends a request, not the worker
        return [_answer_to(error)] if len(requests) == 1 else None


def _sendable(answer):
    status, _, body = answer
    if not (isinstance(status, int) and 200 <= status <= 599):
        return failure("The response has the status %r, which is none of HTTP: 200 to 599." % (status,))
    if len(body) > LARGEST_ANSWER:
        return failure("The answer has %d bytes; at most %d can be sent." % (len(body), LARGEST_ANSWER))
    return answer


def _answer_to(error):
    if isinstance(error, Refused):
        return refusal(error.status, error.message)
    if isinstance(error, Unanswerable):
        sys.stderr.write("%s\n" % error)
        return failure(str(error))
    log_exception(error)
    return failure(one_line(error))
