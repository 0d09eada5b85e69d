import os

import bentoml
import joblib
import numpy


@bentoml.service(workers=1, logging={"access": {"enabled": False}})
class Iris:
    def __init__(self):
        self.model = joblib.load(os.environ["BENCH_MODEL"])

    @bentoml.api(route="/score")
    def score(self, data: list[list[float]]) -> list[int]:
        return self.model.predict(numpy.asarray(data)).tolist()
