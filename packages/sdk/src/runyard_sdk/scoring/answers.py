"""What a scorer gives back: (status, headers, body). Headers None means application/json."""
import json

SCRIPT_FAILED = ["x-ms-run-function-failed", "True"]
JSON_TYPE = ["Content-Type", "application/json"]


class Refused(Exception):
    """The request cannot be answered as it is; the client is told so with this status and message."""

    def __init__(self, status, message):
        super(Refused, self).__init__(message)
        self.status, self.message = status, message


class Unanswerable(Exception):
    """What the script returned cannot be sent; the message says what to return instead."""


def answer_json(value, status=200):
    """The value as JSON; numpy arrays and scalars become lists and numbers. Unanswerable for what JSON cannot hold."""
    try:
        return status, None, _encode(value).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise Unanswerable("The result (%s) cannot be written as JSON: %s" % (type(value).__name__, error))


def refusal(status, message):
    """The answer to a request that is not as it must be."""
    return answer_json({"message": message}, status)


def failure(message):
    """The answer where the script failed."""
    return 500, [JSON_TYPE, SCRIPT_FAILED], answer_json({"message": message})[2]


def _plain(value):
    """Called for what the standard encoder does not know."""
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
