"""SavedModels of TensorFlow 1 and 2. Both have a graph and signatures, and are run as TensorFlow Serving does."""
import os

from runyard_sdk.scoring.failure import InitFailed
from runyard_sdk.scoring.scorers.model_files import inside, with_suffix
from runyard_sdk.scoring.scorers.tf import signatures
from runyard_sdk.scoring.scorers.tf.signatures import Signature, Tensor

NAMES = ("saved_model.pb", "saved_model.pbtxt")


def find(model):
    """The folder to serve, or None. Of numbered versions the highest, as TensorFlow Serving does."""
    folders = sorted({os.path.dirname(path) for path in with_suffix(model, NAMES)})
    highest = [folder for folder in folders if _number(folder) == max(
        _number(other) for other in folders if os.path.dirname(other) == os.path.dirname(folder))]
    if len(highest) > 1:
        raise InitFailed(
            "Model %s:%d holds %d SavedModels: %s." % (
                model.name, model.version, len(highest), ", ".join(inside(model, folder) for folder in highest)),
            "Register the folder of one of them.")
    return highest[0] if highest else None


def load(start, model, folder):
    """Its signatures by name."""
    import tensorflow
    tf = signatures.version_1(tensorflow)
    if _number(folder) >= 0:
        start.notes.append("Version folder '%s' is served." % inside(model, folder))
    tags = _tags(_read(folder), inside(model, folder))
    graph = tf.Graph()
    with graph.as_default():
        session = signatures.open_session(tf, graph)
        try:
            meta = tf.saved_model.loader.load(session, tags, folder)
        except Exception as error:
            raise _failed(inside(model, folder), meta_version(_read(folder)), tensorflow.__version__, error) from error
        found = signatures_of(tf, session, meta.signature_def)
    if not found:
        raise InitFailed(
            "The SavedModel '%s' has no signatures: nothing says what goes in and out." % inside(model, folder),
            "Save it with tf.saved_model.save(model, folder, signatures=...), model.export(folder) or, in TensorFlow "
            "1, tf.saved_model.simple_save(session, folder, inputs={...}, outputs={...}).")
    return found


def signatures_of(tf, session, definitions):
    """Signatures by name, from the protocol buffers of a meta graph."""
    found = {}
    for name, definition in sorted(definitions.items()):
        tensors = list(definition.inputs.values()) + list(definition.outputs.values())
        if name.startswith("__saved_model") or not definition.outputs or not all(info.name for info in tensors):
            continue  # what starts the model, trains it, or takes sparse tensors, for which JSON has no form
        inputs, outputs = _tensors(tf, definition.inputs), _tensors(tf, definition.outputs)
        run = signatures.session_run(session, list(inputs.values()), list(outputs.values()))
        found[name] = Signature(inputs, outputs, run, definition.method_name or signatures.PREDICT)
    return found


def _tensors(tf, infos):
    return {alias: Tensor(info.name, tf.as_dtype(info.dtype), signatures.shape_of(info.tensor_shape))
            for alias, info in sorted(infos.items())}


def _number(folder):
    name = os.path.basename(folder)
    return int(name) if name.isdigit() else -1


def _read(folder):
    from tensorflow.core.protobuf import saved_model_pb2
    saved = saved_model_pb2.SavedModel()
    binary = os.path.join(folder, NAMES[0])
    try:
        if os.path.exists(binary):
            with open(binary, "rb") as file:
                saved.ParseFromString(file.read())
        else:
            from google.protobuf import text_format
            with open(os.path.join(folder, NAMES[1])) as file:
                text_format.Merge(file.read(), saved)
    except Exception as error:
        raise InitFailed("%s cannot be read as a SavedModel: %s" % (os.path.basename(binary), error),
                         "Save and register the model again.") from error
    return saved


def _tags(saved, name):
    """Of the graph to serve: that for serving, and of several the one without further wishes such as a TPU."""
    choices = sorted((list(meta.meta_info_def.tags) for meta in saved.meta_graphs),
                     key=lambda tags: ("serve" not in tags, len(tags)))
    if not choices:
        raise InitFailed("The SavedModel '%s' holds no graph." % name, "Save and register the model again.")
    return choices[0]


def meta_version(saved):
    """The release of TensorFlow that wrote it, or ''."""
    return saved.meta_graphs[0].meta_info_def.tensorflow_version if saved.meta_graphs else ""


def _failed(name, saved_by, here, error):
    hint = ""
    if saved_by and saved_by != here:
        hint = "Register the model with model_framework_version='%s', and deploy again." % saved_by
    return InitFailed("The SavedModel '%s', saved by TensorFlow %s, cannot be loaded by TensorFlow %s: %s" % (
        name, saved_by or "of an unknown version", here, str(error).strip().split("\n")[0]), hint)
