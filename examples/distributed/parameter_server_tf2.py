"""A perceptron for MNIST with TensorFlow 2's ParameterServerStrategy: a chief hands steps out to workers."""

import argparse

import tensorflow as tf
from mnist import load_test, load_training

from azureml.core import Run

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data-folder", required=True)
parser.add_argument("--steps", type=int, default=1500, help="of all workers together")
parser.add_argument("--batch-size", type=int, default=100)
parser.add_argument("--learning-rate", type=float, default=0.1)
args = parser.parse_args()

tf.config.threading.set_intra_op_parallelism_threads(1)  # processes of one machine share its cores
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
print("This is", resolver.task_type, resolver.task_id, "of", resolver.cluster_spec().as_dict())
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()  # until the platform ends it, once the chief is done

run = Run.get_context()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weights = []
    for inputs, outputs in ((784, 300), (300, 100), (100, 10)):
        weights.append(tf.Variable(tf.random.normal((inputs, outputs), stddev=(2 / inputs) ** 0.5)))
        weights.append(tf.Variable(tf.zeros(outputs)))


def logits_of(images):
    hidden = tf.nn.relu(images @ weights[0] + weights[1])
    hidden = tf.nn.relu(hidden @ weights[2] + weights[3])
    return hidden @ weights[4] + weights[5]


@tf.function
def train_step(batches):
    images, labels = next(batches)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits_of(images)))
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(args.learning_rate * gradient)
    return loss


def make_batches():
    data = tf.data.Dataset.from_tensor_slices(load_training(args.data_folder))
    return data.shuffle(60000).repeat().batch(args.batch_size)


batches = iter(coordinator.create_per_worker_dataset(make_batches))
for step in range(0, args.steps, 100):
    losses = [coordinator.schedule(train_step, args=(batches,)) for _ in range(100)]
    coordinator.join()
    loss = float(losses[-1].fetch())
    run.log("loss", loss)
    print(f"Step {step + 100}: loss {loss:.4f}")
test_x, test_y = load_test(args.data_folder)
accuracy = float(tf.reduce_mean(tf.cast(tf.argmax(logits_of(test_x), 1) == test_y, tf.float32)))
run.log("accuracy", accuracy)
print(f"Accuracy: {accuracy:.4f}")
tf.io.gfile.makedirs("outputs")
tf.saved_model.save(tf.train.Checkpoint(weights=[tf.Variable(weight) for weight in weights]), "outputs/model")
