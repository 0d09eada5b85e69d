"""What a page's web service answers, asked as any client would: over HTTP, without the SDK."""

import gzip
import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from azureml.core import Webservice, Workspace
from seeds.prerequisites import MNIST

PIXELS = 28 * 28
IMAGES_A_REQUEST = 500


@contextmanager
def deployed(name: str) -> Iterator[str]:
    """Where the web service answers, once it does; it is deleted in the end."""
    service = Webservice(Workspace.from_config(), name)
    try:
        service.wait_for_deployment(show_output=True)
        yield service.scoring_uri
    finally:
        service.delete()


def share_told_right(scoring_uri: str) -> float:
    """The share of MNIST's test images whose most likely digit is the true one."""
    images = _read("t10k-images-idx3-ubyte.gz", header=16).reshape(-1, PIXELS) / np.float32(255)
    labels = _read("t10k-labels-idx1-ubyte.gz", header=8)
    right = 0
    for start in range(0, len(images), IMAGES_A_REQUEST):
        digits = _most_likely(scoring_uri, images[start : start + IMAGES_A_REQUEST])
        right += int((digits == labels[start : start + IMAGES_A_REQUEST]).sum())
    return right / len(images)


def _most_likely(scoring_uri: str, images: np.ndarray) -> np.ndarray:
    body = json.dumps({"instances": images.tolist()}).encode()
    request = urllib.request.Request(scoring_uri, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return np.argmax(json.load(answer)["predictions"], axis=1)


def _read(name: str, header: int) -> np.ndarray:
    with urllib.request.urlopen(MNIST + name, timeout=60) as answer:
        return np.frombuffer(gzip.decompress(answer.read()), np.uint8, offset=header)
