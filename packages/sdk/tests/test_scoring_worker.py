"""The worker's loop: frames of any size, order, threads, batches, and its end."""
import signal
import socket
import struct
import threading
import unittest

from runyard_sdk.scoring.answers import answer_all
from runyard_sdk.scoring.answers import Refused, answer_json, refusal
from runyard_sdk.scoring.frames import FrameReader, Request, encode_answers
from runyard_sdk.scoring.worker import request_groups
from tests.scoring_worker import Worker

ECHO = "def init(): pass\ndef run(data): return data\n"
MEETING = '''
import threading
everybody = threading.Barrier(3, timeout=20)

def init(): pass

def run(data):
    if data == "together":
        everybody.wait()
    return threading.current_thread() is threading.main_thread()
'''


class Frames(unittest.TestCase):
    def test_requests_of_one_frame_are_answered_in_their_order_each_for_itself(self):
        with Worker(ECHO) as worker:
            worker.ready()
            worker.send_requests([(7, None, b"a"), (8, None, b"b"), (9, None, b"c")])
            frames = [worker.answers() for _ in range(3)]
            self.assertEqual([[(answer.id, answer.json) for answer in frame] for frame in frames],
                             [[(7, "a")], [(8, "b")], [(9, "c")]])

    def test_frames_may_come_before_the_answers_to_the_last_were_read(self):
        with Worker(ECHO) as worker:
            worker.ready()
            for number in range(50):
                worker.send_requests([(number, None, str(number).encode("ascii"))])
            self.assertEqual([worker.answers()[0].json for _ in range(50)], [str(number) for number in range(50)])

    def test_a_frame_may_come_byte_by_byte(self):
        with Worker(ECHO) as worker:
            worker.ready()
            frame = struct.pack(">IcHIII", 16, b"R", 1, 5, 0, 1) + b"x"
            for at in range(len(frame)):
                worker.socket.sendall(frame[at:at + 1])
            self.assertEqual(worker.answers()[0].json, "x")

    def test_large_bodies_and_small_ones_after_them(self):
        with Worker("def init(): pass\ndef run(data): return [len(data), data[:3], 'y' * len(data)]") as worker:
            worker.ready()
            for size in (3, 65520, 65536, 5 << 20, 3, 200000, 3):
                answer = worker.ask(b"x" * size)
                self.assertEqual(answer.json, [size, "xxx", "y" * size])

    def test_frames_of_an_unknown_kind_are_passed_over(self):
        with Worker(ECHO) as worker:
            worker.ready()
            worker.send(b"?", b"from a newer gateway")
            self.assertEqual(worker.ask(b"x").json, "x")

    def test_the_time_in_the_script_is_told(self):
        code = "from time import perf_counter\ndef init(): pass\ndef run(data):\n    began = perf_counter()\n" \
               "    while perf_counter() < began + 0.02: pass"
        with Worker(code) as worker:
            worker.ready()
            self.assertGreaterEqual(worker.ask(b"").microseconds, 20000)

    def test_a_reader_gives_its_large_buffer_back(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            reader = FrameReader(theirs)
            writer = threading.Thread(target=ours.sendall, args=(
                struct.pack(">I", (1 << 20) + 1) + b"R" + bytes(1 << 20) + struct.pack(">I", 1) + b"R",))
            writer.start()
            self.assertEqual(len(reader.read()[1]), 1 << 20)
            self.assertEqual(reader.read(), (b"R", b""))
            self.assertLess(len(reader._view), 1 << 20)
            writer.join()


class Facts(unittest.TestCase):
    def test_a_ready_worker_says_how_it_is_to_be_asked(self):
        with Worker(ECHO) as worker:
            facts = worker.ready()
            self.assertEqual(facts["pid"], worker.process.pid)
            self.assertEqual((facts["wants_heads"], facts["batches"], facts["schema"]), (False, False, {}))
            self.assertGreaterEqual(facts["init_seconds"], 0)

    def test_facts_of_a_newer_gateway_are_ignored(self):
        with Worker(ECHO, colour="green") as worker:
            worker.ready()


class Threads(unittest.TestCase):
    def test_one_request_at_a_time_runs_where_init_ran(self):
        with Worker(MEETING) as worker:
            worker.ready()
            self.assertIs(worker.ask(b"alone").json, True)

    def test_requests_at_once_run_together(self):
        with Worker(MEETING, requests_at_once=3) as worker:
            worker.ready()
            worker.send_requests([(number, None, b"together") for number in range(3)])
            answers = [worker.answers()[0] for _ in range(3)]
            self.assertEqual({answer.status for answer in answers}, {200})
            self.assertEqual({answer.id for answer in answers}, {0, 1, 2})

    def test_what_came_is_answered_after_the_gateway_stopped_asking(self):
        with Worker(MEETING, requests_at_once=3) as worker:
            worker.ready()
            worker.send_requests([(number, None, b"together") for number in range(6)])
            worker.socket.shutdown(socket.SHUT_WR)
            self.assertEqual({worker.answers()[0].id for _ in range(6)}, set(range(6)))
            self.assertEqual(worker.process.wait(20), 0)


class TheEnd(unittest.TestCase):
    def test_of_the_stream_ends_the_worker_when_it_has_answered(self):
        with Worker(ECHO) as worker:
            worker.ready()
            worker.send_requests([(1, None, b"a"), (2, None, b"b")])
            worker.socket.shutdown(socket.SHUT_WR)
            self.assertEqual([worker.answers()[0].json for _ in range(2)], ["a", "b"])
            self.assertEqual(worker.process.wait(20), 0)

    def test_of_a_gateway_that_died_ends_the_worker_quietly(self):
        with Worker(ECHO) as worker:
            worker.ready()
            worker.send_requests([(1, None, b"a")] * 1000)
            worker.hang_up()
            self.assertEqual(worker.process.wait(20), 0)
            self.assertEqual(worker.log(), "")

    def test_before_anything_was_asked_of_it(self):
        ours, theirs = socket.socketpair()
        ours.close()
        with theirs:
            self.assertIsNone(FrameReader(theirs).read())

    def test_comes_to_a_script_that_hangs_too(self):
        code = "import sys\nsys.modules['__main__'].SECONDS_AFTER_THE_GATEWAY = 0.1\n" \
               "def init(): pass\ndef run(data):\n    import threading\n    threading.Event().wait()"
        with Worker(code) as worker:
            worker.ready()
            worker.send_requests([(1, None, b"")])
            worker.hang_up()
            self.assertEqual(worker.process.wait(20), 1)

    def test_by_a_crash_leaves_the_stack_in_the_log(self):
        code = "import os, signal\ndef init(): pass\ndef run(data): os.kill(os.getpid(), signal.SIGSEGV)"
        with Worker(code) as worker:
            worker.ready()
            worker.send_requests([(1, None, b"")])
            self.assertEqual(worker.process.wait(20), -signal.SIGSEGV)
            self.assertIn("score.py", worker.log())


class Sums(object):
    """A batching scorer: adds what all requests say; a word that is no number is the client's fault."""

    batches = True

    def __init__(self):
        self.calls = []

    def score(self, requests):
        bodies = [request.body for request in requests]
        self.calls.append(bodies)
        if b"crash" in bodies:
            raise ZeroDivisionError("crash")
        return [answer_json(int(body) + 1) if body.isdigit() else refusal(400, "No number.") for body in bodies]


class Batches(unittest.TestCase):
    def test_a_frame_is_scored_in_one_call(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(struct.pack(">IcH", 3 + 2 * 13, b"R", 2) + struct.pack(">III", 1, 0, 1) + b"4"
                         + struct.pack(">III", 2, 0, 1) + b"5")
            ours.shutdown(socket.SHUT_WR)
            groups = list(request_groups(FrameReader(theirs), Sums()))
        self.assertEqual([[request.body for request in group] for group in groups], [[b"4", b"5"]])

    def test_a_bad_request_does_not_hurt_its_neighbours(self):
        scorer = Sums()
        answered = answer_all(scorer, [Request(b"1", id=1), Request(b"crash", id=2), Request(b"x", id=3)])
        self.assertEqual([(id, answer[0], answer[2]) for id, answer, _ in answered], [
            (1, 200, b"2"), (2, 500, b'{"message": "ZeroDivisionError: crash"}'),
            (3, 400, b'{"message": "No number."}')])
        self.assertEqual(scorer.calls, [[b"1", b"crash", b"x"], [b"1"], [b"crash"], [b"x"]])

    def test_a_refusal_has_its_status(self):
        class Refusing(object):
            def score(self, requests):
                raise Refused(422, "Not so.")
        (_, answer, _), = answer_all(Refusing(), [Request(b"")])
        self.assertEqual(answer, (422, None, b'{"message": "Not so."}'))

    def test_a_scorer_that_forgets_an_answer_fails_the_request(self):
        class Forgetful(object):
            def score(self, requests):
                return []
        (_, answer, _), = answer_all(Forgetful(), [Request(b"")])
        self.assertEqual(answer[0], 500)

    def test_answers_go_out_in_one_frame(self):
        frame = encode_answers([(1, (200, None, b"a"), 5), (2, (404, [["X", "y"]], b"bc"), 1 << 40)])
        self.assertEqual(frame, struct.pack(">IcH", len(frame) - 4, b"A", 2)
                         + struct.pack(">IHIII", 1, 200, 5, 0, 1) + b"a"
                         + struct.pack(">IHIII", 2, 404, (1 << 32) - 1, 25, 2) + b'{"headers": [["X", "y"]]}bc')

    def test_large_answers_have_a_frame_each(self):
        half = bytes(40 << 20)
        frames = encode_answers([(1, (200, None, half), 5), (2, (200, None, half), 5)])
        one = len(encode_answers([(1, (200, None, half), 5)]))
        self.assertEqual((len(frames), frames[one + 4:one + 7]), (2 * one, b"A\x00\x01"))


if __name__ == "__main__":
    unittest.main()
