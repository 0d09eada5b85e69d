"""A perceptron for MNIST with TensorFlow 1's own way to train on many machines: parameter servers and workers.

The platform tells every process by TF_CONFIG which of them it is and where the others are.
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf
from mnist import load_test, load_training, share

from azureml.core import Run

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data-folder", required=True)
parser.add_argument("--steps", type=int, default=2000, help="of all workers together")
parser.add_argument("--batch-size", type=int, default=100)
parser.add_argument("--learning-rate", type=float, default=0.1)
args = parser.parse_args()

told = json.loads(os.environ["TF_CONFIG"])
cluster = tf.train.ClusterSpec(told["cluster"])
role, index = told["task"]["type"], told["task"]["index"]
config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
server = tf.train.Server(cluster, job_name=role, task_index=index, config=config)
print("This is", role, index, "of", told["cluster"])
if role == "ps":
    server.join()  # until the platform ends it, once the workers are done

run = Run.get_context()
is_chief = index == 0
train_x, train_y = share(*load_training(args.data_folder), rank=index, size=cluster.num_tasks("worker"))
with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % index)):
    images = tf.placeholder(tf.float32, (None, 784))
    labels = tf.placeholder(tf.int64, (None,))
    hidden = tf.layers.dense(tf.layers.dense(images, 300, tf.nn.relu), 100, tf.nn.relu)
    logits = tf.layers.dense(hidden, 10)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
    global_step = tf.train.get_or_create_global_step()
    step = tf.train.GradientDescentOptimizer(args.learning_rate).minimize(loss, global_step=global_step)

# A worker has to do with the parameter servers alone: it need not wait for the other workers to start or to end.
config.device_filters.extend(["/job:ps", "/job:worker/task:%d" % index])
# By default a worker looks only every 30 s whether the first one has initialized the variables.
supervisor = tf.train.Supervisor(
    is_chief=is_chief, logdir="outputs/model" if is_chief else None, global_step=global_step, recovery_wait_secs=1)
done = own = 0
with supervisor.managed_session(server.target, config=config) as session:
    while done < args.steps:
        batch = np.random.randint(len(train_x), size=args.batch_size)
        _, lost, done = session.run([step, loss, global_step], {images: train_x[batch], labels: train_y[batch]})
        own += 1
        if own % 200 == 0:
            print("Worker {}: step {} of all, loss {:.4f}".format(index, done, lost))
    run.log("steps_of_worker_%d" % index, own)
    if is_chief:
        test_x, test_y = load_test(args.data_folder)
        reached = float(session.run(accuracy, {images: test_x, labels: test_y}))
        run.log("accuracy", reached)
        print("Accuracy: {:.4f}".format(reached))
        supervisor.saver.save(session, supervisor.save_path, global_step=global_step)
