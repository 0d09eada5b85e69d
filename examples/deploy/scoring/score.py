"""A scoring script: init() runs once in each worker, run() for each request."""

import json
import os

import joblib

SPECIES = ["setosa", "versicolor", "virginica"]


def init():
    global model
    # The folder holds what was registered, under the name it had.
    model = joblib.load(os.path.join(os.environ["AZUREML_MODEL_DIR"], "iris.joblib"))


def run(body):
    measures = json.loads(body)["measures"]
    probabilities = model.predict_proba(measures)
    return [{"species": SPECIES[row.argmax()], "probability": round(float(row.max()), 3)} for row in probabilities]
