"""Checkpoints of tf.train.Saver: NAME.meta, NAME.index and NAME.data-..., served by what their graph's names say."""
import os
import re

from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.scorers.model_files import inside, with_suffix
from runyard_sdk.scoring.scorers.tf import graph as graphs, saved_model, signatures
from runyard_sdk.scoring.scorers.tf.signatures import Signature, Tensor

LATEST = re.compile(r'^model_checkpoint_path:\s*"(?P<path>[^"]*)"', re.MULTILINE)
STEP = re.compile(r"-([0-9]+)$")


def find(model):
    """The checkpoint to serve as a path without .meta, or None: the one that the file `checkpoint` names, else the
    one of the last step."""
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
    """Its signatures by name: those that its meta graph has, else the one that the names in its graph make."""
    import tensorflow
    tf = signatures.version_1(tensorflow)
    name = inside(model, prefix)
    graph = tf.Graph()
    with graph.as_default():
        session = signatures.open_session(tf, graph)
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
        return declared or {signatures.DEFAULT: _by_names(start, tf, session, graph, name)}


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
    output = graphs.named_output(graph)
    placeholders = graphs.placeholders_of(output) if output is not None else []
    if not [one for one in placeholders if not graphs.has_usual_value(one)]:
        raise _unnamed(name, graph)
    inputs = {alias: _tensor(tf, one.outputs[0]) for alias, one in graphs.aliases(placeholders).items()}
    outputs = {graphs.output_alias(output): _tensor(tf, output.outputs[0])}
    usual = {alias: graphs.usual_value(one) for alias, one in graphs.aliases(placeholders).items()
             if graphs.has_usual_value(one)}
    start.notes.append("Checkpoint '%s' is served from %s to %s%s." % (
        name, ", ".join(tensor.name for alias, tensor in inputs.items() if alias not in usual),
        output.outputs[0].name, "".join("; %s is %s" % (inputs[alias].name, value) for alias, value in usual.items())))
    run = signatures.session_run(session, list(inputs.values()), list(outputs.values()))
    return Signature(inputs, outputs, run, optional=usual)


def _tensor(tf, tensor):
    shape = tensor.shape.as_list() if tensor.shape.ndims is not None else None
    return Tensor(tensor.name, tensor.dtype.base_dtype, shape)


def _unnamed(name, graph):
    """Why it cannot be served, with the line that would do in the script that trained it."""
    inputs, output = graphs.likely_inputs(graph), graphs.likely_output(graph)
    problem = "Checkpoint '%s' does not say what goes in and out of the model" % name
    if not inputs:
        return InitFailed(
            "%s: its graph has no placeholder." % problem,
            "Save a SavedModel in the training script: of an estimator, estimator.export_saved_model('outputs/model', "
            "serving_input_receiver_fn); else tf.saved_model.simple_save(session, 'outputs/model', inputs={...}, "
            "outputs={...}). Register that folder.")
    named = ", ".join("'%s': graph.get_tensor_by_name('%s')" % (alias, one.outputs[0].name)
                      for alias, one in graphs.aliases(inputs).items())
    target = "graph.get_tensor_by_name('%s')" % output.outputs[0].name if output is not None else "..."
    return InitFailed(
        "%s: no tensor of its graph is called output, logits, predictions or the like." % problem,
        "Save a SavedModel in the training script and register its folder: graph = tf.get_default_graph(); "
        "tf.saved_model.simple_save(session, 'outputs/model', inputs={%s}, outputs={'output': %s}). Or give the "
        "tensor a name: tf.identity(..., name='output')." % (named, target))
