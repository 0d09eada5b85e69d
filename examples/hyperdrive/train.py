"""Train a small network on scikit-learn's own images of digits, and log its accuracy after each epoch."""

import argparse
import os

import joblib
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from azureml.core import Run


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learning-rate", type=float, default=0.001)
    parser.add_argument("--hidden", type=int, default=32, help="units of the hidden layer")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=20)
    return parser.parse_args()


def main():
    args = parse_arguments()
    run = Run.get_context()
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16.0, labels, test_size=0.2, random_state=0, stratify=labels
    )

    model = MLPClassifier(
        (args.hidden,), learning_rate_init=args.learning_rate, batch_size=args.batch_size, random_state=0
    )
    for epoch in range(args.epochs):
        model.partial_fit(train_x, train_y, classes=range(10))
        accuracy = float(model.score(test_x, test_y))
        # One call of this is one interval: what early termination looks at.
        run.log("accuracy", accuracy)
        print(f"epoch {epoch + 1:2}: accuracy {accuracy:.3f}")

    os.makedirs("outputs", exist_ok=True)
    joblib.dump(model, os.path.join("outputs", "model.pkl"))


if __name__ == "__main__":
    main()
