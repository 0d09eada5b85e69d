"""SavedModels of TensorFlow 1 and 2, and signatures: named computations with named tensors in and out."""

import os

from runyard_sdk.scoring.failure import InitFailed
from runyard_sdk.scoring.scorers.model_files import inside, with_suffix

NAMES = ("saved_model.pb", "saved_model.pbtxt")
PREDICT, CLASSIFY, REGRESS = "tensorflow/serving/predict", "tensorflow/serving/classify", "tensorflow/serving/regress"
DEFAULT = "serving_default"


def find(model):
    """Folder to serve, or None. Of numbered versions the highest, as TensorFlow Serving does."""
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
    """Signatures by name."""
    import tensorflow
    tf = version_1(tensorflow)
    if _number(folder) >= 0:
        start.notes.append("Version folder '%s' is served." % inside(model, folder))
    tags = _tags(_read(folder), inside(model, folder))
    graph = tf.Graph()
    with graph.as_default():
        session = open_session(tf, graph)
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
            continue  # starts or trains the model, or takes sparse tensors, for which JSON has no form
        inputs, outputs = _tensors(tf, definition.inputs), _tensors(tf, definition.outputs)
        run = session_run(session, list(inputs.values()), list(outputs.values()))
        found[name] = Signature(inputs, outputs, run, definition.method_name or PREDICT)
    return found


def _tensors(tf, infos):
    return {alias: Tensor(info.name, tf.as_dtype(info.dtype), shape_of(info.tensor_shape))
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
    """Tags of the graph to serve: the one for serving, of several the one without extra tags such as TPU."""
    choices = sorted((list(meta.meta_info_def.tags) for meta in saved.meta_graphs),
                     key=lambda tags: ("serve" not in tags, len(tags)))
    if not choices:
        raise InitFailed("The SavedModel '%s' holds no graph." % name, "Save and register the model again.")
    return choices[0]


def meta_version(saved):
    """Release of TensorFlow that wrote it, or ''."""
    return saved.meta_graphs[0].meta_info_def.tensorflow_version if saved.meta_graphs else ""


def _failed(name, saved_by, here, error):
    hint = ""
    if saved_by and saved_by != here:
        hint = "Register the model with model_framework_version='%s', and deploy again." % saved_by
    return InitFailed("The SavedModel '%s', saved by TensorFlow %s, cannot be loaded by TensorFlow %s: %s" % (
        name, saved_by or "of an unknown version", here, str(error).strip().split("\n")[0]), hint)


class Tensor(object):
    """An input or output. `shape` is a list of sizes, None for any size, or None itself for any rank."""

    def __init__(self, name, dtype, shape):
        """`dtype` is TensorFlow's; `name` such as 'x:0'."""
        self.name, self.dtype, self.shape = name, dtype, shape
        self.is_text = dtype.name == "string"

    def has_rows(self):
        """Whether the first dimension is the number of rows, chosen by the client."""
        return self.shape is None or bool(self.shape) and self.shape[0] is None


class Signature(object):
    """`run` takes a list of arrays in the order of `inputs` and returns one for each of `outputs`."""

    def __init__(self, inputs, outputs, run, method=PREDICT, optional=()):
        """inputs, outputs: Tensor by alias. `optional`: default values by alias that a request may omit."""
        self.inputs, self.outputs, self.run, self.method = inputs, outputs, run, method
        self.optional = dict(optional)

    def has_rows(self):
        return all(tensor.has_rows() for tensor in list(self.inputs.values()) + list(self.outputs.values()))


def open_session(tf, graph):
    """TensorFlow 1 session. GPU memory is allocated as needed, not all at once."""
    settings = tf.ConfigProto(allow_soft_placement=True)
    settings.gpu_options.allow_growth = True
    return tf.Session(graph=graph, config=settings)


def session_run(session, inputs, outputs):
    """`run` of a signature in a session; inputs and outputs are lists of tensors of its graph."""
    # Parses names once: several times faster than session.run for small models.
    call = session.make_callable([tensor.name for tensor in outputs], feed_list=[tensor.name for tensor in inputs])
    return lambda arrays: call(*arrays)


def version_1(tensorflow):
    """TensorFlow 1 API of either version."""
    return getattr(getattr(tensorflow, "compat", None), "v1", None) or tensorflow


def shape_of(proto):
    """Shape of a TensorShapeProto."""
    if proto.unknown_rank:
        return None
    return [dim.size if dim.size >= 0 else None for dim in proto.dim]
