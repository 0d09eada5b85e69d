"""TensorFlow Serving's REST routes over the signatures of one model."""
import re
from collections import OrderedDict

from runyard_sdk.scoring.answers import Refused, answer_json
from runyard_sdk.scoring.scorers.batching import RowsTogether, answer_in_groups
from runyard_sdk.scoring.scorers.bodies import json_object
from runyard_sdk.scoring.scorers.tf import examples, metadata, predict
from runyard_sdk.scoring.scorers.tf.signatures import CLASSIFY, DEFAULT, PREDICT, REGRESS

ROUTE = re.compile(r"/v1/models/(?P<model>[^/:]+)(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
                   r"(?P<metadata>/metadata)?(?::(?P<verb>[a-z]+))?")
VERBS = {"predict": PREDICT, "classify": CLASSIFY, "regress": REGRESS}
EXAMPLES = {"predict": '{"instances": [...]}', "classify": '{"examples": [{"feature": 1.0}]}'}
EXAMPLES["regress"] = EXAMPLES["classify"]


class ServingScorer(object):
    batches = True
    methods = ["GET", "POST"]

    def __init__(self, start, model, signatures):
        self._service, self._model = start.service, model
        self._signatures = OrderedDict(sorted(signatures.items()))
        self._rows = RowsTogether(self._compute)
        self.schema = metadata.schema(self._signatures)

    def score(self, requests):
        return answer_in_groups(requests, self._read, self._answer, _refusal)

    def _read(self, request):
        """The key's first part is (verb, signature), or None for what is answered without the model."""
        verb = "predict"
        if request.head and "/v1/models/" in request.head["path"]:
            route = self._route(request.head["path"])
            if request.head["method"] != "POST":
                return (None,), self._facts(route)
            verb = route.group("verb")
            if verb not in VERBS:
                raise Refused(404, "POST needs a verb behind the model: %s." % ", ".join(":" + one for one in VERBS))
        body = json_object(request.body, EXAMPLES[verb])
        name, signature = self._signature(body, verb)
        job = (predict if verb == "predict" else examples).read(signature, body)
        return ((verb, name), job.kind, job.shapes), job

    def _answer(self, key, jobs):
        if key[0] is None:
            return [answer_json(job) for job in jobs]
        signature = self._signatures[key[0][1]]
        if signature.has_rows():
            outputs = self._rows.outputs(key, [job.arrays for job in jobs])
        else:
            outputs = [self._compute(key, job.arrays) for job in jobs]
        write = predict.write if key[0][0] == "predict" else examples.write
        return [write(signature, job, arrays) for job, arrays in zip(jobs, outputs)]

    def _compute(self, key, arrays):
        try:
            return self._signatures[key[0][1]].run(arrays)
        except Exception as error:
            if _is_about_inputs(error):
                raise Refused(400, _said(error))
            raise

    def _route(self, path):
        from urllib.parse import unquote
        route = ROUTE.fullmatch(path[path.index("/v1/models/"):])
        if route is None:
            raise Refused(404, "Malformed request: there is no route %s." % path)
        if unquote(route.group("model")) not in (self._model.name, self._service):
            raise Refused(404, "There is no model %s here; this is %s." % (
                unquote(route.group("model")), self._model.name))
        if route.group("label") or route.group("version") not in (None, str(self._model.version)):
            raise Refused(404, "Of model %s version %d is served, and no label." % (
                self._model.name, self._model.version))
        return route

    def _facts(self, route):
        if route.group("verb"):
            raise Refused(405, "Send a POST to :%s." % route.group("verb"))
        if route.group("metadata"):
            return metadata.metadata(self._model, self._signatures)
        return metadata.status(self._model)

    def _signature(self, body, verb):
        fitting = [name for name, one in self._signatures.items() if one.method == VERBS[verb]]
        name = str(body.get("signature_name") or DEFAULT)
        if "signature_name" not in body and name not in fitting and len(fitting) == 1:
            name = fitting[0]
        if name not in self._signatures:
            raise Refused(400, "Serving signature name: \"%s\" not found in signature def. The model has: %s." % (
                name, ", ".join(self._signatures)))
        # TensorFlow Serving lets :predict call any signature, and the other verbs their own.
        if verb != "predict" and name not in fitting:
            raise Refused(400, "Signature \"%s\" cannot %s%s." % (name, verb, "; these can: " + ", ".join(fitting)
                                                                  if fitting else ". The model has none that can"))
        return name, self._signatures[name]


def _refusal(status, message):
    return answer_json({"error": message}, status)


def _is_about_inputs(error):
    """TensorFlow's own error for that, or Python's for shapes that do not fit."""
    return isinstance(error, (ValueError, TypeError)) or type(error).__name__ == "InvalidArgumentError"


def _said(error):
    """The one line that says what is wrong: around it TensorFlow writes where in the graph that was."""
    return str(error).split("\n\t [[")[0].strip().splitlines()[-1]
