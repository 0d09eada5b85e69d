import json
import unittest
from unittest import mock

from runyard_sdk import follow as following
from runyard_sdk.errors import ServiceUnavailable


class Answer:
    """An answer that ends after these events, whole or not."""

    def __init__(self, events):
        self._lines = [json.dumps(event).encode() + b"\n" for event in events]

    def readline(self):
        return self._lines.pop(0) if self._lines else b""

    def close(self):
        pass


class Service:
    """Gives one answer after the other, and the last one for ever."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def open(self, path, **query):
        self.asked.append(query)
        return Answer(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


class FollowTest(unittest.TestCase):
    def setUp(self):
        patched = mock.patch.object(following, "time")
        patched.start()
        self.addCleanup(patched.stop)

    def test_a_log_goes_on_where_it_stopped(self):
        service = Service([{"log": "a.txt", "offset": 0, "next": 3, "text": "one"}],
                          [{"log": "a.txt", "offset": 3, "next": 6, "text": "two"}, {"end": {"id": "r"}}])
        told = list(following.follow(service, "r"))
        self.assertEqual(told, [("log", "a.txt", "one"), ("log", "a.txt", "two"), ("end", {"id": "r"})])
        self.assertEqual(service.asked[1], {"log": "a.txt", "offset": 3})

    def test_the_logs_of_all_ranks_go_on_where_each_stopped(self):
        def event(rank, offset, text):
            return {"log": "%d.txt" % rank, "rank": rank, "role": "worker", "offset": offset,
                    "next": offset + len(text), "text": text}

        service = Service([event(0, 0, "one"), event(1, 0, "two!")], [event(0, 3, "three"), {"end": {"id": "r"}}])
        told = list(following.follow_ranks(service, "r"))
        self.assertEqual([one[2:] for one in told[:-1]],
                         [("one", 0, "worker"), ("two!", 1, "worker"), ("three", 0, "worker")])
        self.assertEqual(service.asked[0], {"ranks": "all", "from": []})
        self.assertEqual((service.asked[1]["ranks"], sorted(service.asked[1]["from"])),
                         ("all", ["3~0.txt", "4~1.txt"]))

    def test_one_rank_is_asked_for_by_its_number(self):
        service = Service([{"end": {"id": "r"}}])
        self.assertEqual(list(following.follow_ranks(service, "r", 0)), [("end", {"id": "r"})])
        self.assertEqual(service.asked[0]["ranks"], 0)

    def test_a_service_that_breaks_off_each_time_is_given_up(self):
        service = Service([{"status": "Running", "message": ""}])
        with self.assertRaisesRegex(ServiceUnavailable, "breaks off each time"):
            list(following.follow(service, "r"))
        self.assertLess(len(service.asked), 30)


if __name__ == "__main__":
    unittest.main()
