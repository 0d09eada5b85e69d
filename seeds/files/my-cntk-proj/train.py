"""Every rank of an MPI run trains CNTK on its own share of the data, and says whether it runs in an image.

The gradients are exchanged over MPI: the ranks end with the same weights only if that worked.
"""

import os

import cntk
import numpy as np

from azureml.core import Run

BATCH, BATCHES, CLASSES, FEATURES = 64, 60, 3, 8


def is_in_image():
    """Whether this process sees another root folder than the machine that the page was run on."""
    with open("root_of_machine.txt") as file:
        return file.read() != str(tuple(os.stat("/"))[1:3])


def points(seed, count):
    """Clouds around one centre for each class, the same centres for every seed."""
    centres = np.random.RandomState(0).uniform(-2, 2, (CLASSES, FEATURES))
    random = np.random.RandomState(seed)
    classes = random.randint(CLASSES, size=count)
    return (centres[classes] + random.normal(size=(count, FEATURES))).astype(np.float32), classes


def train(rank):
    """The weights' sum and the share of unseen points that the model tells right."""
    features, target = cntk.input_variable(FEATURES), cntk.input_variable(CLASSES)
    network = cntk.layers.Dense(CLASSES)(features)
    loss = cntk.cross_entropy_with_softmax(network, target)
    rate = cntk.learning_parameter_schedule(0.3, minibatch_size=BATCH)
    learner = cntk.distributed.data_parallel_distributed_learner(
        cntk.sgd(network.parameters, rate), num_quantization_bits=32
    )
    trainer = cntk.Trainer(network, (loss, cntk.classification_error(network, target)), [learner])
    inputs, classes = points(1 + rank, BATCH * BATCHES)
    one_hot = np.eye(CLASSES, dtype=np.float32)
    for start in range(0, BATCH * BATCHES, BATCH):
        batch = slice(start, start + BATCH)
        trainer.train_minibatch({features: inputs[batch], target: one_hot[classes[batch]]})
    unseen, truth = points(1000, 2000)
    told = np.argmax(network.eval({features: unseen}), axis=1)
    return sum(float(np.sum(weights.value)) for weights in network.parameters), float(np.mean(told == truth))


run = Run.get_context()
weights_sum, accuracy = train(cntk.Communicator.rank())
run.log("in_image", int(is_in_image()))
run.log("rank", cntk.Communicator.rank())
run.log("weights_sum", weights_sum)
run.log("accuracy", accuracy)
cntk.Communicator.finalize()
