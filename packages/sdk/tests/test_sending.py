import threading
import unittest

from runyard_sdk.interactive import Sender


def _wait_until_no_thread_sends():
    for thread in threading.enumerate():
        if thread.name == "runyard-sender":
            thread.join(10)


class Closing(unittest.TestCase):
    def test_nothing_is_sent_once_it_is_closed(self):
        sent = []
        sender = Sender(lambda: sent.append("piece"))
        sender.wake()
        sender.close()
        until_then = len(sent)
        _wait_until_no_thread_sends()
        self.assertGreater(until_then, 0)
        self.assertEqual(len(sent), until_then)


if __name__ == "__main__":
    unittest.main()
