"""What the names in a graph of TensorFlow 1 tell of its inputs and outputs."""
import re

# Best first. A scope of such a name stands for what comes out of it.
OUTPUT_WORDS = ("predictions", "prediction", "probabilities", "probs", "softmax", "outputs", "output", "logits",
                "scores", "final_result", "y_pred", "y_hat", "predict")
# The part of a graph that trains or measures has the same words in its names.
NOT_SERVED = re.compile(r"(^|/)(gradients?|save|train|training|optimizer|adam|momentum|rmsprop|sgd|adagrad|loss|losses|"
                        r"cost|accuracy|acc|metrics?|eval|evaluation|report_uninitialized|init|xent|cross_entropy)"
                        r"(_[0-9]+)?(/|$)", re.IGNORECASE)
# What is fed besides data, and what it is when a model is used rather than trained.
USUAL_VALUES = ((re.compile(r"(^|[/_])keep_?(prob|rate)", re.IGNORECASE), 1.0),
                (re.compile(r"drop_?(out)?(_?rate|_?prob)?(_[0-9]+)?$", re.IGNORECASE), 0.0),
                (re.compile(r"(^|[/_])(is_?)?train(ing)?(_?(mode|phase|flag))?(_[0-9]+)?$", re.IGNORECASE), False),
                (re.compile(r"(^|[/_])phase$", re.IGNORECASE), False))
LOGITS_FIRST = ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
LOGITS_WITHIN = ("ArgMax", "Softmax", "Sigmoid", "TopKV2")
PLACEHOLDERS = ("Placeholder", "PlaceholderV2")


def named_output(graph):
    """The operation whose name says that it is what the model gives; None where none does."""
    operations = graph.get_operations()
    for word in OUTPUT_WORDS:
        for depth in (1, 2):  # the operation itself, or the scope it lies in
            found = [op for op in operations if _word_at(op, depth) == word and _could_be_output(op)]
            last = [op for op in found if not _feeds(op, found)]
            if last:
                # What needs the labels too measures the model.
                return min(reversed(last), key=lambda op: len(placeholders_of(op)))
    return None


def placeholders_of(op):
    """The placeholders that the operation needs, in the order of the graph. Those with a default are left alone."""
    seen, waiting = set(), [op]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting.extend([tensor.op for tensor in one.inputs] + list(one.control_inputs))
    return [one for one in op.graph.get_operations() if one in seen and one.type in PLACEHOLDERS]


def has_usual_value(placeholder):
    return usual_value(placeholder) is not None


def usual_value(placeholder):
    """What a placeholder that steers the training is fed when the model is used; None for one that takes data."""
    shape, kind = placeholder.outputs[0].shape, placeholder.outputs[0].dtype.base_dtype
    if shape.ndims not in (0, None):
        return None
    for pattern, value in USUAL_VALUES:
        if pattern.search(placeholder.name) and (kind.is_bool == isinstance(value, bool)):
            return value
    return None


def aliases(placeholders):
    """By the last part of their name where that tells them apart, else by all of it."""
    short = [one.name.split("/")[-1] for one in placeholders]
    names = short if len(set(short)) == len(short) else [one.name for one in placeholders]
    return dict(zip(names, placeholders))


def output_alias(op):
    """The word that made it the output."""
    parts = op.name.split("/")
    return parts[-1] if _plain(parts[-1]) in OUTPUT_WORDS or len(parts) == 1 else parts[-2]


def likely_output(graph):
    """What the loss or a decision is computed from; for advice, not for serving."""
    for op in reversed(graph.get_operations()):
        if NOT_SERVED.search(op.name.split("/")[0] if op.type not in LOGITS_FIRST else ""):
            continue
        if op.type in LOGITS_FIRST + LOGITS_WITHIN and placeholders_of(op.inputs[0].op):
            return _through_reshapes(op.inputs[0].op)
    return None


def likely_inputs(graph):
    """The placeholders that the likely output needs; all of them where there is no such output."""
    output = likely_output(graph)
    found = placeholders_of(output) if output is not None else [
        op for op in graph.get_operations() if op.type in PLACEHOLDERS]
    return [one for one in found if not has_usual_value(one)]


def _through_reshapes(op):
    """Losses flatten what they are given."""
    while op.type in ("Reshape", "Identity", "StopGradient") and op.inputs and op.inputs[0].op.type != "Placeholder":
        op = op.inputs[0].op
    return op


def _could_be_output(op):
    if len(op.outputs) != 1 or NOT_SERVED.search(op.name) or op.type in PLACEHOLDERS:
        return False
    tensor = op.outputs[0]
    if tensor.dtype.base_dtype.name in ("resource", "bool") or tensor.shape.ndims == 0:
        return False
    return any(not has_usual_value(one) for one in placeholders_of(op))


def _word_at(op, depth):
    parts = op.name.split("/")
    return _plain(parts[-depth]) if len(parts) >= depth else ""


def _plain(part):
    return re.sub(r"_[0-9]+$", "", part).lower()


def _feeds(op, others):
    return any(consumer in others for consumer in op.outputs[0].consumers())
