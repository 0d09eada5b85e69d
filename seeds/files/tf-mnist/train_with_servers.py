"""Training by the workers of a parameter server run. Every task begins with the page's own block on TF_CONFIG."""

import os
import time

import tensorflow as tf
from perceptron import CONFIG, Perceptron, Share

# The page never says where `cluster` comes from; see errata.toml.
UNDEFINED = {"cluster": "tf_config_json['cluster']"}
OTHERS_TIMEOUT_S = 120


class PageNames(dict):
    def __missing__(self, name):
        if name not in UNDEFINED:
            raise KeyError(name)
        return eval(UNDEFINED[name], {}, self)


def run_page_block():
    """Return TF_CONFIG and the ClusterSpec, as the page's block makes them of its environment."""
    with open("page_block.txt") as file:
        code = file.read()
    names = PageNames()
    exec(compile(code, "page_block.txt", "exec"), names, names)
    return names["tf_config_json"], names["cluster_spec"]


def train(run, args, steps):
    told, cluster = run_page_block()
    assert cluster.as_dict() == told["cluster"]
    role, index = told["task"]["type"], told["task"]["index"]
    run.log("cluster_spec_on_task", f"{role} {index}")
    config = tf.ConfigProto(device_filters=["/job:ps", f"/job:{role}/task:{index}"])
    config.MergeFrom(CONFIG)
    server = tf.train.Server(cluster, job_name=role, task_index=index, config=config)
    if role == "ps":
        server.join()  # the platform ends it when the workers are done
    work(run, args, steps, cluster, index, server, config)


def work(run, args, steps, cluster, index, server, config):
    workers = cluster.num_tasks("worker")
    share = Share(args.data_folder, index, workers)
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
        network = Perceptron(args)
    with open_session(index == 0, server.target, config) as session:
        for _ in range(steps):
            session.run(network.train_step, share.batch(network, args.batch_size))
        # The count lies on the parameter server: it gets there only if all workers trained the same variables.
        reached = wait_until_others_are_done(session, network.global_step, steps * workers)
        accuracy = float(session.run(network.accuracy, share.test(network)))
    print(f"Worker {index} has made {steps} of {reached} steps, accuracy {accuracy:.4f}")
    run.log("worker", index)
    run.log("working_folder", os.getcwd())
    run.log("steps_of_all", reached)
    run.log("accuracy", accuracy)


def open_session(is_first, target, config):
    ready = tf.report_uninitialized_variables()
    manager = tf.train.SessionManager(ready_op=ready, recovery_wait_secs=1)
    if is_first:
        return manager.prepare_session(target, init_op=tf.global_variables_initializer(), config=config)
    return manager.wait_for_session(target, config=config)


def wait_until_others_are_done(session, global_step, wanted):
    deadline = time.time() + OTHERS_TIMEOUT_S
    while time.time() < deadline:
        reached = int(session.run(global_step))
        if reached >= wanted:
            return reached
        time.sleep(0.2)
    return reached
