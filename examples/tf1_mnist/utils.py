"""Finding and reading the four files of MNIST, whatever the folder tree and the names they came in."""

import glob
import gzip
import os
import struct

import numpy as np

IMAGES_MAGIC, LABELS_MAGIC = 2051, 2049


def load_mnist(folder):
    """Return ((training images, labels), (test images, labels)); images are rows of 784 floats from 0 to 1."""
    training = read_images(find_file(folder, ["train"], "images")), read_labels(find_file(folder, ["train"], "labels"))
    test_names = ["test", "t10k"]
    test = read_images(find_file(folder, test_names, "images")), read_labels(find_file(folder, test_names, "labels"))
    return training, test


def find_file(folder, prefixes, content):
    """Return the first `PREFIX-CONTENT*.gz` at any depth below `folder`."""
    for prefix in prefixes:
        pattern = os.path.join(folder, "**", f"{prefix}-{content}*.gz")
        found = sorted(glob.glob(pattern, recursive=True))
        if found:
            return found[0]
    names = " or ".join(f"{prefix}-{content}*.gz" for prefix in prefixes)
    raise FileNotFoundError(f"There is no {names} below {folder!r}. Give --data-folder the folder that holds MNIST.")


def read_images(path):
    with gzip.open(path, "rb") as file:
        magic, count, rows, columns = struct.unpack(">IIII", file.read(16))
        _expect(path, magic, IMAGES_MAGIC)
        pixels = np.frombuffer(file.read(count * rows * columns), dtype=np.uint8)
    return pixels.reshape(count, rows * columns).astype(np.float32) / 255.0


def read_labels(path):
    with gzip.open(path, "rb") as file:
        magic, count = struct.unpack(">II", file.read(8))
        _expect(path, magic, LABELS_MAGIC)
        return np.frombuffer(file.read(count), dtype=np.uint8).astype(np.int64)


def _expect(path, magic, wanted):
    if magic != wanted:
        raise ValueError(f"{path} begins with {magic}, not {wanted}: it is not the MNIST file its name says.")
