"""Tell three species of iris apart by four measures. The data comes with scikit-learn."""

import os

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from azureml.core import Run

measures, species = load_iris(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(measures, species, test_size=0.2, random_state=0)
model = LogisticRegression(max_iter=500).fit(train_x, train_y)
Run.get_context().log("accuracy", model.score(test_x, test_y))

os.makedirs("outputs", exist_ok=True)
joblib.dump(model, "outputs/iris.joblib")
