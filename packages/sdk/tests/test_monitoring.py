import unittest

from tests.scoring_worker import Worker

SCRIPT = """
from azureml.monitoring import ModelDataCollector

def init():
    global inputs, outputs
    inputs = ModelDataCollector("model", identifier="inputs", feature_names=["a", "b"])
    outputs = ModelDataCollector("model", designation="outputs")

def run(data):
    inputs.collect(data)
    outputs.collect(data, user_correlation_id="7")
    return "answered"
"""


class DataCollection(unittest.TestCase):
    def test_a_script_that_collects_answers_and_its_log_says_once_that_nothing_is_kept(self):
        with Worker(SCRIPT) as worker:
            worker.ready()
            self.assertEqual(worker.ask(b"x").json, "answered")
            self.assertEqual(worker.log().count("Data collection has no effect in Runyard"), 1)


if __name__ == "__main__":
    unittest.main()
