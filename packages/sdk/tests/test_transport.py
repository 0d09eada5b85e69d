import unittest
from unittest import mock

from runyard_sdk import transport
from runyard_sdk.client import Client
from runyard_sdk.errors import NotFound, ServiceUnavailable
from tests.stand_in_service import BREAK, StandInService


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Retrying(unittest.TestCase):
    def setUp(self):
        self.service = StandInService()
        self.addCleanup(self.service.close)
        self.client, self.clock = Client(), Clock()
        patched = mock.patch.object(transport, "time", self.clock)
        patched.start()
        self.addCleanup(patched.stop)

    def test_time_counts_from_the_first_failure(self):
        def slow_then_broken(request, answer=self.service.answer):
            self.clock.now += 59  # a long poll
            answer(request)

        self.service.answers["GET run"] = [BREAK, {"status": "Running"}]
        self.service.answer = slow_then_broken
        self.assertEqual(self.client.get("/run"), {"status": "Running"})

    def test_an_address_that_never_answered_is_given_up_soon(self):
        self.service.answers["GET run"] = [BREAK]
        with self.assertRaises(ServiceUnavailable):
            self.client.get("/run")
        self.assertLess(self.clock.now, 10)

    def test_an_address_that_answered_before_is_waited_for(self):
        self.service.answers.update({"GET health": [{}], "GET run": [BREAK]})
        self.client.get("/health")
        with self.assertRaises(ServiceUnavailable):
            self.client.get("/run")
        self.assertTrue(60 < self.clock.now < 65, self.clock.now)

    def test_what_a_proxy_answers_for_a_service_that_is_down_is_tried_again(self):
        self.service.answers["GET run"] = [(502, b"<html>Bad Gateway</html>"), {"status": "Running"}]
        self.assertEqual(self.client.get("/run"), {"status": "Running"})

    def test_an_error_of_the_service_itself_is_not_tried_again(self):
        self.service.answers["GET run"] = [(503, {"code": "no_capacity", "problem": "Full."}), {}]
        with self.assertRaisesRegex(Exception, "Full"):
            self.client.get("/run")

    def test_what_may_have_arrived_is_not_sent_twice(self):
        for send in (self.client.post, self.client.put_once):
            self.service.asked = []
            self.service.answers.update({"POST thing": [BREAK], "PUT thing": [BREAK]})
            with self.assertRaises(ServiceUnavailable):
                send("/thing", {})
            self.assertEqual(len(self.service.asked), 1)

    def test_a_delete_that_broke_off_and_is_answered_with_not_found_has_deleted(self):
        gone = (404, {"code": "not_found", "problem": "Gone."})
        self.service.answers["DELETE thing"] = [BREAK, gone]
        self.assertIsNone(self.client.delete("/thing"))
        with self.assertRaises(NotFound):
            self.client.delete("/thing")


if __name__ == "__main__":
    unittest.main()
