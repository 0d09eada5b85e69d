"""Checkpoints of tf.train.Saver: NAME.meta, NAME.index and NAME.data-..., served by the names in their graph."""

import os
import re

from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.scorers.model_files import inside, with_suffix
from runyard_sdk.scoring.scorers.tf import saved_model
from runyard_sdk.scoring.scorers.tf.saved_model import Signature, Tensor

LATEST = re.compile(r'^model_checkpoint_path:\s*"(?P<path>[^"]*)"', re.MULTILINE)
STEP = re.compile(r"-([0-9]+)$")
# Best first. A scope with such a name stands for its output.
OUTPUT_WORDS = ("predictions", "prediction", "probabilities", "probs", "softmax", "outputs", "output", "logits",
                "scores", "final_result", "y_pred", "y_hat", "predict")
# Parts of a graph that train or evaluate have the same words in their names.
NOT_SERVED = re.compile(r"(^|/)(gradients?|save|train|training|optimizer|adam|momentum|rmsprop|sgd|adagrad|loss|losses|"
                        r"cost|accuracy|acc|metrics?|eval|evaluation|report_uninitialized|init|xent|cross_entropy)"
                        r"(_[0-9]+)?(/|$)", re.IGNORECASE)
# Inputs other than data, and their values when a model is used rather than trained.
USUAL_VALUES = ((re.compile(r"(^|[/_])keep_?(prob|rate)", re.IGNORECASE), 1.0),
                (re.compile(r"drop_?(out)?(_?rate|_?prob)?(_[0-9]+)?$", re.IGNORECASE), 0.0),
                (re.compile(r"(^|[/_])(is_?)?train(ing)?(_?(mode|phase|flag))?(_[0-9]+)?$", re.IGNORECASE), False),
                (re.compile(r"(^|[/_])phase$", re.IGNORECASE), False))
LOGITS_FIRST = ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
LOGITS_WITHIN = ("ArgMax", "Softmax", "Sigmoid", "TopKV2")
PLACEHOLDERS = ("Placeholder", "PlaceholderV2")


def find(model):
    """Path of the checkpoint to serve without .meta, or None: the one that the file `checkpoint` names, else the last
    step."""
    prefixes = [path[:-len(".meta")] for path in with_suffix(model, [".meta"])]
    if not prefixes:
        if with_suffix(model, [".index"]):
            raise InitFailed(
                "Model %s:%d holds a checkpoint without its graph (.meta)." % (model.name, model.version),
                "Save it with tf.train.Saver().save(session, path), which writes the graph beside it; better, save a "
                "SavedModel: tf.saved_model.save(model, folder), model.export(folder) or tf.saved_model.simple_save.")
        return None
    named = {os.path.join(os.path.dirname(path), name) for path in with_suffix(model, ["checkpoint"])
             for name in _latest(path)}
    return max(prefixes, key=lambda prefix: (prefix in named, _step(prefix), prefix))


def load(start, model, prefix):
    """Signatures by name: those of its meta graph, else one made from the names in its graph."""
    import tensorflow
    tf = saved_model.version_1(tensorflow)
    name = inside(model, prefix)
    graph = tf.Graph()
    with graph.as_default():
        session = saved_model.open_session(tf, graph)
        try:
            saver = tf.train.import_meta_graph(prefix + ".meta", clear_devices=True)
            saver.restore(session, prefix)
        except Exception as error:
            raise InitFailed(
                "Checkpoint '%s' cannot be restored by TensorFlow %s: %s" % (
                    name, tensorflow.__version__, one_line(error)),
                "Register the folder with all its files (.meta, .index, .data-...) and the model_framework_version "
                "that it was trained with.") from error
        _run_table_initializers(tf, session, graph)
        declared = saved_model.signatures_of(tf, session, _declared(tf, prefix))
        return declared or {saved_model.DEFAULT: _by_names(start, tf, session, graph, name)}


def _latest(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = LATEST.search(file.read())
    except OSError:
        return []
    return [os.path.basename(found.group("path"))] if found else []


def _step(prefix):
    found = STEP.search(prefix)
    return int(found.group(1)) if found else -1


def _declared(tf, prefix):
    from tensorflow.core.protobuf import meta_graph_pb2
    meta = meta_graph_pb2.MetaGraphDef()
    with open(prefix + ".meta", "rb") as file:
        meta.ParseFromString(file.read())
    return meta.signature_def


def _run_table_initializers(tf, session, graph):
    tables = graph.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
    if tables:
        session.run(tables)


def _by_names(start, tf, session, graph, name):
    output = named_output(graph)
    placeholders = placeholders_of(output) if output is not None else []
    if not [one for one in placeholders if not has_usual_value(one)]:
        raise _unnamed(name, graph)
    inputs = {alias: _tensor(tf, one.outputs[0]) for alias, one in aliases(placeholders).items()}
    outputs = {output_alias(output): _tensor(tf, output.outputs[0])}
    usual = {alias: usual_value(one) for alias, one in aliases(placeholders).items()
             if has_usual_value(one)}
    start.notes.append("Checkpoint '%s' is served from %s to %s%s." % (
        name, ", ".join(tensor.name for alias, tensor in inputs.items() if alias not in usual),
        output.outputs[0].name, "".join("; %s is %s" % (inputs[alias].name, value) for alias, value in usual.items())))
    run = saved_model.session_run(session, list(inputs.values()), list(outputs.values()))
    return Signature(inputs, outputs, run, optional=usual)


def _tensor(tf, tensor):
    shape = tensor.shape.as_list() if tensor.shape.ndims is not None else None
    return Tensor(tensor.name, tensor.dtype.base_dtype, shape)


def _unnamed(name, graph):
    """Exception for a checkpoint that cannot be served, with the line to add to the training script."""
    inputs, output = likely_inputs(graph), likely_output(graph)
    problem = "Checkpoint '%s' does not say what goes in and out of the model" % name
    if not inputs:
        return InitFailed(
            "%s: its graph has no placeholder." % problem,
            "Save a SavedModel in the training script: of an estimator, estimator.export_saved_model('outputs/model', "
            "serving_input_receiver_fn); else tf.saved_model.simple_save(session, 'outputs/model', inputs={...}, "
            "outputs={...}). Register that folder.")
    named = ", ".join("'%s': graph.get_tensor_by_name('%s')" % (alias, one.outputs[0].name)
                      for alias, one in aliases(inputs).items())
    target = "graph.get_tensor_by_name('%s')" % output.outputs[0].name if output is not None else "..."
    return InitFailed(
        "%s: no tensor of its graph is called output, logits, predictions or the like." % problem,
        "Save a SavedModel in the training script and register its folder: graph = tf.get_default_graph(); "
        "tf.saved_model.simple_save(session, 'outputs/model', inputs={%s}, outputs={'output': %s}). Or give the "
        "tensor a name: tf.identity(..., name='output')." % (named, target))


def named_output(graph):
    """Operation whose name marks it as the model's output; None if there is none."""
    operations = graph.get_operations()
    for word in OUTPUT_WORDS:
        for depth in (1, 2):  # the operation itself, or its scope
            found = [op for op in operations if _word_at(op, depth) == word and _could_be_output(op)]
            last = [op for op in found if not _feeds(op, found)]
            if last:
                # What needs the labels too evaluates the model.
                return min(reversed(last), key=lambda op: len(placeholders_of(op)))
    return None


def placeholders_of(op):
    """Placeholders that the operation needs, in graph order, without those that have a default."""
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
    """Value of a training-control placeholder when the model is used; None for one that takes data."""
    shape, kind = placeholder.outputs[0].shape, placeholder.outputs[0].dtype.base_dtype
    if shape.ndims not in (0, None):
        return None
    for pattern, value in USUAL_VALUES:
        if pattern.search(placeholder.name) and (kind.is_bool == isinstance(value, bool)):
            return value
    return None


def aliases(placeholders):
    """Aliases: the last part of a name if that is unique, else the whole name."""
    short = [one.name.split("/")[-1] for one in placeholders]
    names = short if len(set(short)) == len(short) else [one.name for one in placeholders]
    return dict(zip(names, placeholders))


def output_alias(op):
    """The word that made it the output."""
    parts = op.name.split("/")
    return parts[-1] if _plain(parts[-1]) in OUTPUT_WORDS or len(parts) == 1 else parts[-2]


def likely_output(graph):
    """Input of the loss or of a decision; for hints, not for serving."""
    for op in reversed(graph.get_operations()):
        if NOT_SERVED.search(op.name.split("/")[0] if op.type not in LOGITS_FIRST else ""):
            continue
        if op.type in LOGITS_FIRST + LOGITS_WITHIN and placeholders_of(op.inputs[0].op):
            return _through_reshapes(op.inputs[0].op)
    return None


def likely_inputs(graph):
    """Placeholders that the likely output needs; all if there is no such output."""
    output = likely_output(graph)
    found = placeholders_of(output) if output is not None else [
        op for op in graph.get_operations() if op.type in PLACEHOLDERS]
    return [one for one in found if not has_usual_value(one)]


def _through_reshapes(op):
    """Follow reshapes: losses flatten their input."""
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
