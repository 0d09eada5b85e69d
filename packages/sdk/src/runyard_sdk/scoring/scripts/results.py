from runyard_sdk.scoring.answers import answer_json
from runyard_sdk.scoring.raw_http.response import is_response, response_answer

_NOTHING = answer_json({})


def answer_of(value):
    """The answer that a return value of run() stands for: a response as it is, anything else as JSON."""
    if value is None:
        return _NOTHING
    if is_response(value):
        return response_answer(value)
    return answer_json(value)
