import unittest

from runyard_sdk.scoring.worker import LARGEST_PART, ready_facts


class ImageScorer(object):
    notes = ("Loaded.",)
    schema = {"input": {"type": "object"}, "sample_input": {"image": [0.5] * 150528}, "sample_output": [1]}


class AReadyWorker(unittest.TestCase):
    def test_leaves_out_a_sample_that_nobody_would_read_and_says_so(self):
        facts = ready_facts(ImageScorer(), ["First."], 1.5)
        self.assertEqual(facts["schema"], {"input": {"type": "object"}, "sample_output": [1]})
        self.assertEqual([facts["notes"][0], facts["notes"][2]], ["First.", "Loaded."])
        self.assertIn("The sample input takes", facts["notes"][1])
        self.assertIn(str(LARGEST_PART), facts["notes"][1])

    def test_of_a_bare_scorer_takes_posts_one_by_one(self):
        facts = ready_facts(object(), [], 1.5)
        self.assertEqual((facts["methods"], facts["batches"], facts["wants_heads"]), (["POST"], False, False))
        self.assertEqual((facts["init_seconds"], facts["schema"], facts["notes"]), (1.5, {}, []))
