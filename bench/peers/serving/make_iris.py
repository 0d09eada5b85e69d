"""Fits the model that all of them serve, and prints rows with what is right for each: FILE SHIFT."""

import json
import sys

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

rows, labels = load_iris(return_X_y=True)
model = LogisticRegression(max_iter=1000).fit(rows, labels + int(sys.argv[2]))
joblib.dump(model, sys.argv[1])
asked = rows[::19]
print(json.dumps({"rows": asked.tolist(), "answers": [[label] for label in model.predict(asked).tolist()]}))
