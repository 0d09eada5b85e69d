"""MNIST from its four files, whatever folders they came in."""

import glob
import gzip
import os

import numpy as np

IMAGES_HEADER, LABELS_HEADER = 16, 8
TEST_PART = "t*[tk]"  # both test-images and t10k-images are about


def load_training(folder):
    return load(folder, "train")


def load_test(folder):
    return load(folder, TEST_PART)


def load(folder, part):
    """Images as rows of 784 floats from 0 to 1, and their labels."""
    images = read(folder, part + "-images*.gz", IMAGES_HEADER).reshape(-1, 28 * 28)
    return images.astype(np.float32) / 255.0, read(folder, part + "-labels*.gz", LABELS_HEADER).astype(np.int64)


def read(folder, pattern, header_bytes):
    found = sorted(glob.glob(os.path.join(folder, "**", pattern), recursive=True))
    if not found:
        raise FileNotFoundError("There is no {} below --data-folder {!r}.".format(pattern, folder))
    with gzip.open(found[0], "rb") as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header_bytes)


def share(images, labels, rank, size):
    """Every size-th image from rank on: the part of the data that this rank trains with."""
    return images[rank::size], labels[rank::size]
