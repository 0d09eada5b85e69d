"""Train a digit classifier on scikit-learn's own small images: nothing is downloaded."""

import argparse
import os

import joblib
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from azureml.core import Run


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--regularization", type=float, default=0.01, help="strength; larger means a simpler model")
    return parser.parse_args()


def main():
    args = parse_arguments()
    run = Run.get_context()
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16.0, labels, test_size=0.2, random_state=0, stratify=labels
    )
    print(f"Training on {len(train_x)} images, testing on {len(test_x)}.")

    model = LogisticRegression(C=1.0 / args.regularization, max_iter=500)
    model.fit(train_x, train_y)

    accuracy = float(model.score(test_x, test_y))
    run.log("regularization", args.regularization)
    run.log("training_accuracy", float(model.score(train_x, train_y)))
    run.log("accuracy", accuracy)
    matrix = confusion_matrix(test_y, model.predict(test_x))
    for digit, row in enumerate(matrix):
        run.log_row("accuracy by digit", digit=digit, accuracy=float(row[digit]) / float(row.sum()))
    print(f"Accuracy: {accuracy:.3f}")

    os.makedirs("outputs", exist_ok=True)
    joblib.dump(model, os.path.join("outputs", "model.pkl"))


if __name__ == "__main__":
    main()
