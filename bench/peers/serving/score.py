"""A scoring script of the Azure ML kind, for every server that runs one."""

import json
import os

import joblib
import numpy


def init():
    global model
    folder = os.environ["AZUREML_MODEL_DIR"]
    model = joblib.load(os.path.join(folder, "iris.joblib"))


def run(body):
    return model.predict(numpy.asarray(json.loads(body)["data"])).tolist()
