"""Logistic regression on a part of MNIST, read from the mounted datastore."""

import argparse
import glob
import gzip
import os

import joblib
import numpy as np
from mounted_data import log_where_it_lies
from sklearn.linear_model import LogisticRegression

from azureml.core import Run

IMAGES_HEADER, LABELS_HEADER = 16, 8
TRAINED_ON, TESTED_ON = 10000, 2000


def read(folder, name, header_bytes):
    path = glob.glob(os.path.join(folder, "**", name), recursive=True)[0]
    with gzip.open(path, "rb") as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header_bytes)


def load(folder, part, count):
    images = read(folder, part + "-images-idx3-ubyte.gz", IMAGES_HEADER).reshape(-1, 28 * 28)[:count]
    return images / 255.0, read(folder, part + "-labels-idx1-ubyte.gz", LABELS_HEADER)[:count]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-folder", required=True)
    parser.add_argument("--regularization", type=float, default=0.8)
    args = parser.parse_args()
    log_where_it_lies(args.data_folder)
    train_x, train_y = load(args.data_folder, "train", TRAINED_ON)
    test_x, test_y = load(args.data_folder, "t10k", TESTED_ON)
    model = LogisticRegression(C=1.0 / args.regularization, max_iter=30)
    model.fit(train_x, train_y)
    accuracy = float(model.score(test_x, test_y))
    print(f"Accuracy: {accuracy:.4f}")
    run = Run.get_context()
    run.log("regularization", args.regularization)
    run.log("accuracy", accuracy)
    os.makedirs("outputs", exist_ok=True)
    joblib.dump(model, "outputs/model.pkl")


if __name__ == "__main__":
    main()
