"""scikit-learn models without code: {"data": rows, "method": name} -> {name: results}."""
import json
import warnings

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.scorers import sklearn_inputs, sklearn_pickle
from runyard_sdk.scoring.scorers.batching import RowsTogether, answer_in_groups
from runyard_sdk.scoring.scorers.bodies import json_object, json_type
from runyard_sdk.scoring.scorers.sklearn_contract import is_row_by_row

# The first that a model has is the default.
METHODS = ("predict_proba", "predict", "transform", "decision_function", "score_samples", "predict_log_proba")
EXAMPLE = '{"data": [[1.0, 2.0]], "method": "predict"}'
THEIR_FAULT = (ValueError, TypeError, KeyError, IndexError)


def load(start):
    """The one estimator that was registered, read from a joblib or pickle file."""
    estimator = sklearn_pickle.load_estimator(start)
    # They come with every call, and say what is done on purpose: rows are given as arrays where names are not needed.
    warnings.filterwarnings("ignore", message=".*feature names")
    return SklearnScorer(estimator)


class SklearnScorer(object):
    batches = True

    def __init__(self, estimator):
        self._estimator = estimator
        self._methods = [name for name in METHODS if callable(getattr(estimator, name, None))]
        self._inputs = sklearn_inputs.Inputs(estimator)
        self._rows, self._give_several = RowsTogether(self._compute, is_row_by_row(estimator)), set()
        self.schema = _schema(self._methods, self._inputs)

    def score(self, requests):
        return answer_in_groups(requests, self._read, self._answer)

    def _read(self, request):
        body = json_object(request.body, EXAMPLE)
        method = body.get("method") or self._methods[0]
        if method not in self._methods:
            raise Refused(400, "method is %s; this %s has %s." % (
                json.dumps(method), type(self._estimator).__name__, ", ".join(self._methods)))
        if "data" not in body:
            raise Refused(400, "The body has no \"data\". Send an object such as %s." % EXAMPLE)
        try:
            kind, rows = self._inputs.read(body)
        except THEIR_FAULT as error:
            raise Refused(400, "The data (a JSON %s) cannot be read as rows: %s" % (json_type(body["data"]), error))
        return (method, kind), rows

    def _answer(self, key, jobs):
        method = key[0]
        outputs = self._rows.outputs(key, [[rows] for rows in jobs])
        # An estimator of several outputs gives a list of arrays, each with all rows.
        several = method in self._give_several
        return [_answer(method, [one.tolist() for one in out] if several else out[0].tolist()) for out in outputs]

    def _compute(self, key, inputs):
        method, kind = key
        try:
            results = getattr(self._estimator, method)(self._inputs.ready(kind, inputs[0]))
        except THEIR_FAULT as error:
            raise Refused(400, str(error))
        if isinstance(results, list) and results and hasattr(results[0], "shape"):
            self._give_several.add(method)
            return results
        return [_array(results)]


def _array(results):
    import numpy
    return results.toarray() if hasattr(results, "toarray") else numpy.asarray(results)


def _answer(method, values):
    # NaN and infinities are written as Python writes them: so did the original's server, which used json.dumps too.
    return 200, None, ('{"%s": %s}' % (method, json.dumps(values))).encode("ascii")


def _schema(methods, inputs):
    rows = inputs.rows_schema()
    return {
        "input": {
            "type": "object", "required": ["data"],
            "properties": {"data": rows, "method": {"type": "string", "enum": methods, "default": methods[0]}},
        },
        "output": {"type": "object", "properties": {name: {"type": "array", "items": {}} for name in methods}},
        "sample_input": {"data": inputs.sample_rows(), "method": methods[0]},
    }
