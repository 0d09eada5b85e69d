"""Saves the model as mlflow wants to have it: MODEL FOLDER."""

import sys

import joblib
import mlflow.sklearn

mlflow.sklearn.save_model(joblib.load(sys.argv[1]), sys.argv[2])
