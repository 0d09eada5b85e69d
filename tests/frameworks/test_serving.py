"""Models of every framework deployed without code and asked over HTTP, through the SDK, service and gateway."""

import pytest

from tests.frameworks.conftest import RUNYARD
from tests.frameworks.serving import Frameworks, start

TENSORFLOW_1 = """
import tensorflow as tf

def network(output, keep=1.0):
    x = tf.placeholder(tf.float32, [None, 2], name="features")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    weights = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.name_scope(output):
        logits = tf.identity(tf.matmul(tf.nn.dropout(x, keep), weights))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return x, logits

def save_checkpoint(folder, output):
    with tf.Graph().as_default(), tf.Session() as session:
        network(output, tf.placeholder(tf.float32, [], name="keep_prob"))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, folder + "/tiny.model")

with tf.Graph().as_default(), tf.Session() as session:
    x, logits = network("output")
    serialized = tf.placeholder(tf.string, [None])
    parsed = tf.parse_example(serialized, {"a": tf.FixedLenFeature([2], tf.float32)})["a"]
    classes = tf.tile(tf.constant([["no", "yes"]]), [tf.shape(parsed)[0], 1])
    session.run(tf.global_variables_initializer())
    define = tf.saved_model.signature_def_utils
    builder = tf.saved_model.builder.SavedModelBuilder("saved/7")
    builder.add_meta_graph_and_variables(session, ["serve"], {
        "serving_default": define.predict_signature_def({"x": x}, {"scores": logits}),
        "both": define.predict_signature_def({"x": x}, {"double": x * 2, "scores": logits}),
        "classes": define.classification_signature_def(serialized, classes, parsed),
        "sums": define.regression_signature_def(serialized, tf.reduce_sum(parsed, axis=1, keepdims=True))})
    builder.save()

with deployed("saved", "TensorFlow", "1.13.0") as service:
    uri, model = service.scoring_uri, service.scoring_uri[:-len(":predict")]
    examples = {"examples": [{"a": [1.0, 0.5]}, {}], "context": {"a": [0.0, 2.0]}}
    tell(uri=uri, rows=http(uri, {"instances": [[1, 0], [0, 1]]}), columns=http(uri, {"inputs": {"x": [[1, 1]]}}),
         both=http(uri, {"instances": [[1, 0]], "signature_name": "both"}),
         classify=http(model + ":classify", examples), regress=http(model + ":regress", examples),
         status=http(model), metadata=http(model + "/metadata"),
         wrong=http(uri, {"instances": [[1, 2, 3]]}), unknown=http(uri, {"instances": [[1, 2]], "signature_name": "x"}),
         swagger=http(service.swagger_uri)[0], run=service.run(json.dumps({"instances": [[1, 0]]})))
save_checkpoint("named", "output")
with deployed("named", "TensorFlow", "1.13.0") as service:
    tell(checkpoint=http(service.scoring_uri, {"instances": [[1, 0], [0, 1]]}))
save_checkpoint("unnamed", "third")
try:
    with deployed("unnamed", "TensorFlow", "1.13.0"):
        pass
except WebserviceException as error:
    tell(unnamed=error.message)
"""
TENSORFLOW_2 = """
import numpy, tensorflow as tf
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
model.export("exported")
model.save("model.keras")
tell(expected=model(numpy.array([[1.0, 2.0, 3.0]])).numpy().tolist())
with deployed("exported", "TensorFlow") as service:
    tell(exported=http(service.scoring_uri, {"instances": [[1, 2, 3]]}), wrong=http(service.scoring_uri, {"inputs": 1}))
with deployed("model.keras", "TfKeras") as service:
    tell(keras=http(service.scoring_uri, {"instances": [[1, 2, 3]]}))
"""
SCIKIT_LEARN = """
import joblib
from sklearn.linear_model import LogisticRegression
joblib.dump(LogisticRegression().fit([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]), "model.pkl")
with deployed("model.pkl", "ScikitLearn") as service:
    tell(proba=http(service.scoring_uri, {"data": [[0.5]]}), swagger=http(service.swagger_uri)[0],
         predict=service.run(json.dumps({"data": [[0.5], [9.5]], "method": "predict"})),
         wrong=http(service.scoring_uri, {"data": [[1, 2]]}), logs=service.get_logs())
"""
ONNX = """
import base64, numpy, onnx
from onnx import TensorProto, helper, numpy_helper
weights = numpy_helper.from_array(numpy.array([[1, 2], [3, 4]], "float32"), "w")
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["y"])], "tiny",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 2])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 2])], [weights])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "tiny.onnx")
raw = base64.b64encode(numpy.array([1, 1], "float32").tobytes()).decode("ascii")
with deployed("tiny.onnx", "Onnx", "1.3") as service:
    uri = service.scoring_uri
    typed = http(uri, {"inputs": {"x": {"dims": ["1", "2"], "dataType": 1, "rawData": raw}}, "outputFilter": ["y"]})
    tensor = typed[1]["outputs"]["y"]
    values = numpy.frombuffer(base64.b64decode(tensor.pop("rawData")), "float32").tolist()
    tell(typed=typed, values=values, plain=http(uri, {"data": [[1, 0]]}), named=http(uri, {"inputs": {"x": [[0, 1]]}}),
         wrong=http(uri, {"data": [[1]]}), filtered=http(uri, {"data": [[1, 0]], "outputFilter": ["z"]}))
"""
TORCH = """
import torch
layer = torch.nn.Linear(2, 1)
torch.jit.trace(layer, torch.ones(1, 2)).save("script.pt")
rows = {"input": {0: torch.export.Dim("rows")}}
torch.export.save(torch.export.export(layer, (torch.ones(2, 2),), dynamic_shapes=rows), "program.pt2")
torch.save(layer.state_dict(), "weights.pt")
tell(expected=layer(torch.tensor([[1.0, 2.0]])).tolist())
for name in ("script.pt", "program.pt2"):
    with deployed(name, "PyTorch", VERSION) as service:
        tell(**{name: http(service.scoring_uri, {"data": [[1, 2]]}),
                name + " wrong": http(service.scoring_uri, {"data": [[1, 2, 3]]})})
try:
    with deployed("weights.pt", "PyTorch", VERSION):
        pass
except WebserviceException as error:
    tell(weights=error.message)
"""
CHAINER = """
import chainer, numpy
os.mkdir("model")
with open("model/model.py", "w") as file:
    file.write("import chainer\\n\\ndef create_model():\\n    return chainer.links.Linear(2, 1)\\n")
network = chainer.links.Linear(2, 1)
chainer.serializers.save_npz("model/tiny.npz", chainer.links.Classifier(network))
tell(expected=network(numpy.array([[1, 2]], "float32")).array.tolist())
with deployed("model", "Chainer") as service:
    tell(answer=http(service.scoring_uri, {"data": [[1, 2]]}), wrong=http(service.scoring_uri, {"data": [[1]]}))
"""


@pytest.fixture
def frameworks(environment):
    start(RUNYARD, environment)
    return Frameworks(environment)


@pytest.mark.slow
def test_a_scikit_learn_model(frameworks, tmp_path):
    told, _ = frameworks.run(SCIKIT_LEARN, tmp_path, "ScikitLearn")
    assert told["proba"][0] == 200
    assert told["proba"][1]["predict_proba"][0][0] > 0.5
    assert told["predict"] == {"predict": [0, 1]}
    assert told["wrong"][0] == 400
    assert "features" in told["wrong"][1]["message"]
    assert told["swagger"] == 200
    assert "as in the environment that the model was registered from" in told["logs"]


@pytest.mark.frameworks
def test_models_and_a_checkpoint_of_tensorflow_1_13_on_python_3_7(frameworks, tmp_path):
    told, printed = frameworks.run(TENSORFLOW_1, tmp_path, "TensorFlow", "1.13.0", python="3.7")
    assert "TensorFlow 1.13.1 is taken, the nearest release of that series." in printed
    assert "Python 3.7." in printed
    assert told["uri"].endswith("/v1/models/tiny:predict")
    assert told["rows"] == [200, {"predictions": [[1.0, 2.0], [3.0, 4.0]]}]
    assert told["columns"] == [200, {"outputs": [[4.0, 6.0]]}]
    assert told["both"] == [200, {"predictions": [{"double": [2.0, 0.0], "scores": [1.0, 2.0]}]}]
    assert told["classify"] == [200, {"result": [[["no", 1.0], ["yes", 0.5]], [["no", 0.0], ["yes", 2.0]]]}]
    assert told["regress"] == [200, {"result": [1.5, 2.0]}]
    assert told["status"][1]["model_version_status"][0]["state"] == "AVAILABLE"
    assert "both" in told["metadata"][1]["metadata"]["signature_def"]["signature_def"]
    assert told["wrong"] == [400, {"error": "Input x has the shape [1, 3]; the model takes [?, 2]."}]
    assert told["unknown"][0] == 400
    assert told["swagger"] == 200
    assert told["run"] == {"predictions": [[1.0, 2.0]]}
    assert told["checkpoint"] == told["rows"]
    assert "inputs={'features': graph.get_tensor_by_name('features:0')}" in told["unnamed"]
    assert "outputs={'output': graph.get_tensor_by_name('MatMul:0')}" in told["unnamed"].replace("third/", "")


@pytest.mark.frameworks
def test_models_of_tensorflow_2(frameworks, tmp_path):
    told, _ = frameworks.run(TENSORFLOW_2, tmp_path, "TensorFlow", "2.21")
    for name in ("exported", "keras"):
        status, answer = told[name]
        assert status == 200
        assert answer["predictions"][0] == pytest.approx(told["expected"][0], abs=1e-5)
    assert told["wrong"][0] == 400


@pytest.mark.frameworks
def test_a_model_in_onnx(frameworks, tmp_path):
    told, _ = frameworks.run(ONNX, tmp_path, "Onnx", "1.3", also="onnx")
    assert told["typed"] == [200, {"outputs": {"y": {"dims": ["1", "2"], "dataType": 1}}}]
    assert told["values"] == [4.0, 6.0]
    assert told["plain"] == [200, {"outputs": {"y": [[1.0, 2.0]]}}]
    assert told["named"] == [200, {"outputs": {"y": [[3.0, 4.0]]}}]
    assert told["wrong"] == [400, {"message": "Input x has the shape [1, 1]; the model takes [?, 2]."}]
    assert told["filtered"][0] == 400


@pytest.mark.frameworks
def test_programs_of_torch(frameworks, tmp_path):
    told, _ = frameworks.run("VERSION = '2.13'\n" + TORCH, tmp_path, "PyTorch", "2.13")
    for name in ("script.pt", "program.pt2"):
        assert told[name][0] == 200
        assert told[name][1]["outputs"][0] == pytest.approx(told["expected"][0], abs=1e-5)
        assert told[f"{name} wrong"][0] == 400
    assert "'weights.pt' holds weights or a pickled module, not a program." in told["weights"]
    assert "torch.export.save" in told["weights"]


@pytest.mark.frameworks
def test_a_network_of_chainer(frameworks, tmp_path):
    told, _ = frameworks.run(CHAINER, tmp_path, "Chainer")
    assert told["answer"][0] == 200
    assert told["answer"][1]["outputs"][0] == pytest.approx(told["expected"][0], abs=1e-5)
    assert told["wrong"][0] == 400
