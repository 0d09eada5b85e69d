"""Answers of scorers: (status, headers, body). Headers None means application/json."""

import json
import sys
from time import perf_counter

from runyard_sdk.scoring.failure import log_exception, one_line
from runyard_sdk.scoring.output import flush_output

SCRIPT_FAILED = ["x-ms-run-function-failed", "True"]
JSON_TYPE = ["Content-Type", "application/json"]
LARGEST_ANSWER = 512 << 20


class Refused(Exception):
    """The request cannot be answered; the client gets this status and message."""

    def __init__(self, status, message):
        super(Refused, self).__init__(message)
        self.status, self.message = status, message


class Unanswerable(Exception):
    """The return value of the script cannot be sent; the message says what to return instead."""


def answer_json(value, status=200):
    """Answer with the value as JSON; numpy arrays and scalars become lists and numbers. Raises Unanswerable for other
    types."""
    try:
        return status, None, _encode(value).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise Unanswerable("The result (%s) cannot be written as JSON: %s" % (type(value).__name__, error))


def refusal(status, message):
    """Answer to an invalid request."""
    return answer_json({"message": message}, status)


def failure(message):
    """Answer when the script failed."""
    return 500, [JSON_TYPE, SCRIPT_FAILED], answer_json({"message": message})[2]


def _plain(value):
    """`default` of the JSON encoder."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return value.tolist()
    raise TypeError(_ADVICE.get(type(value).__name__, "a value of type %s has no form in JSON. Return numbers, "
                                "texts, lists and dicts." % type(value).__name__))


_ADVICE = {
    "bytes": "bytes have no form in JSON. Decode them to a str, or return AMLResponse(body, 200) to send them as "
             "they are.",
    "DataFrame": "a DataFrame has no form in JSON. Return its .to_dict(orient='records').",
    "EagerTensor": "a tensor has no form in JSON. Return its .numpy().tolist().",
    "coroutine": "run() is an async function, whose result nobody awaited. Write it as a plain function.",
    "generator": "a generator has no form in JSON. Return a list.",
    "set": "a set has no form in JSON. Return a list.",
}
_encode = json.JSONEncoder(default=_plain).encode


def answer_all(scorer, requests):
    """[(id, answer, microseconds in the scorer)], one per request, in order. Never raises, whatever a script does.

    If a batch fails, its requests are scored one by one: a bad request does not affect others.
    """
    began = perf_counter()
    answers = _scored(scorer, requests)
    if answers is None:
        return [answered for request in requests for answered in answer_all(scorer, [request])]
    flush_output()
    microseconds = int((perf_counter() - began) * 1e6)
    return [(request.id, _sendable(answer), microseconds) for request, answer in zip(requests, answers)]


def _scored(scorer, requests):
    """Answers of the requests; None if a batch failed."""
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
