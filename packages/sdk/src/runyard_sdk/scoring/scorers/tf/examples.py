"""Bodies of :classify and :regress: {"examples": [{feature: value}], "context": {...}} -> {"result": [...]}."""
from runyard_sdk.scoring.answers import Refused, answer_json
from runyard_sdk.scoring.scorers.bodies import json_type
from runyard_sdk.scoring.scorers.tf.predict import Job, decoded


def read(signature, body):
    """A Job of serialized tf.train.Example, which is what such signatures take."""
    import numpy
    examples, context = body.get("examples"), body.get("context") or {}
    if not isinstance(examples, list) or not examples:
        raise Refused(400, "\"examples\" must be a list of at least one object of features.")
    for value in examples + [context]:
        if not isinstance(value, dict):
            raise Refused(400, "An example or context is an object of features, not a JSON %s." % json_type(value))
    serialized = [_example(dict(context, **example)).SerializeToString() for example in examples]
    return Job("examples", [numpy.array(serialized, dtype=object)])


def write(signature, job, arrays):
    outputs = dict(zip(signature.outputs, (array.tolist() for array in arrays)))
    if "outputs" in outputs:  # regress
        values = outputs["outputs"]
        return answer_json({"result": [value[0] if isinstance(value, list) else value for value in values]})
    rows = len(job.arrays[0])
    labels = outputs.get("classes") or [[""] * len(scores) for scores in outputs["scores"]]
    scores = outputs.get("scores") or [[0.0] * len(row) for row in labels]
    return answer_json({"result": [[[_text(label), score] for label, score in zip(labels[at], scores[at])]
                                   for at in range(rows)]})


def _text(label):
    return label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)


def _example(features):
    import tensorflow as tf
    example = tf.train.Example()
    for name, value in features.items():
        values = decoded(value if isinstance(value, list) else [value])
        kind, plain = _kind(name, values)
        getattr(example.features.feature[name], kind).value.extend(plain)
    return example


def _kind(name, values):
    """All of a feature's values are of one type, as in the proto."""
    if all(isinstance(value, (str, bytes)) for value in values):
        return "bytes_list", [value.encode("utf-8") if isinstance(value, str) else value for value in values]
    if all(isinstance(value, int) for value in values):
        return "int64_list", [int(value) for value in values]
    if all(isinstance(value, (int, float)) for value in values):
        return "float_list", values
    raise Refused(400, "Feature %s must be numbers or texts, all of one kind." % name)
