import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

from runyard_sdk import journal
from runyard_sdk.journal import FileJournal


def lines_of(folder):
    """`{journal name: [lines]}` as a reader sees them: half a line at the end is none."""
    found = {}
    for name in os.listdir(folder):
        if name.endswith(".jsonl"):
            with open(os.path.join(folder, name)) as source:
                found[name] = [json.loads(line) for line in source if line.endswith("\n")]
    return found


class AJournal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.journal = FileJournal(self.folder, "run_1", "3")

    def only_lines(self):
        (lines,) = lines_of(self.folder).values()
        return lines

    def test_is_named_after_run_rank_and_process(self):
        self.journal.scalar("a", 1)
        (name,) = os.listdir(self.folder)
        self.assertRegex(name, r"^run_1~3-{}-[0-9a-f]+\.jsonl$".format(os.getpid()))

    def test_makes_no_file_before_there_is_something_to_say(self):
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_scalar_is_one_line_with_step_and_time(self):
        self.journal.scalar('accu"racy', 0.25, 7)
        ((kind, name, value, step, at),) = self.only_lines()
        self.assertEqual((kind, name, value, step), ("m", 'accu"racy', 0.25, 7))
        self.assertGreater(at, 1.5e9)

    def test_numbers_keep_their_type_and_all_their_digits(self):
        for value in (1, 2.0, 0.1 + 0.2, 10 ** 30, True, None, "text", "\u00e9\u4e16"):
            self.journal.scalar("a", value)
        values = [line[2] for line in self.only_lines()]
        self.assertEqual(values, [1, 2.0, 0.1 + 0.2, 10 ** 30, True, None, "text", "\u00e9\u4e16"])
        self.assertIsInstance(values[1], float)

    def test_not_a_number_and_the_infinities_survive(self):
        for value in (float("nan"), float("inf"), float("-inf")):
            self.journal.scalar("a", value)
        values = [line[2] for line in self.only_lines()]
        self.assertNotEqual(values[0], values[0])
        self.assertEqual(values[1:], [float("inf"), float("-inf")])

    def test_a_forked_child_writes_a_file_of_its_own(self):
        self.journal.scalar("a", 1)
        child = os.fork()
        if child == 0:
            self.journal.scalar("a", 2)
            os._exit(0)
        os.waitpid(child, 0)
        self.journal.scalar("a", 3)
        values = sorted([line[2] for line in lines] for lines in lines_of(self.folder).values())
        self.assertEqual(values, [[1, 3], [2]])


class AJournalThatCannotBeWritten(unittest.TestCase):
    """A real limit on file size stands in for the full disk: the write fails in the middle of a line."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.journal = FileJournal(self.folder, "run_1")
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGXFSZ, before)
        self.limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, self.limits)

    def fill_after(self, size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, self.limits[1]))

    def make_room(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.limits)

    def test_keeps_the_points_and_writes_them_when_there_is_room_again(self):
        self.journal.scalar("a", 0)
        self.fill_after(100)
        for number in range(1, 50):
            self.journal.scalar("a", number)
        self.make_room()
        self.assertTrue(self.journal.retry())
        ((lines),) = lines_of(self.folder).values()
        self.assertEqual([line[2] for line in lines], list(range(50)))

    def test_counts_what_it_had_to_drop(self):
        self.journal.scalar("a", 0)
        self.fill_after(1)
        for number in range(journal.KEPT_LINES + 5):
            self.journal.scalar("a", number)
        self.make_room()
        self.assertTrue(self.journal.retry())
        (lines,) = lines_of(self.folder).values()
        self.assertEqual(lines[-1], ["drop", 5])
        self.assertEqual(len([line for line in lines if line[0] == "m"]), journal.KEPT_LINES + 1)

    def supervised(self, lines):
        made = FileJournal(self.folder, "run_1", supervised=True)
        made.scalar("a", -1)
        self.fill_after(100)
        for number in range(lines):
            made.scalar("a", number)
        return made

    def names(self, start):
        return [name for name in os.listdir(self.folder) if name.startswith(start)]

    def test_says_while_lines_wait_and_no_longer_when_they_are_written(self):
        made = self.supervised(20)
        self.assertEqual(len(self.names("waiting-")), 1)
        self.make_room()
        self.assertTrue(made.retry())
        self.assertEqual(self.names("waiting-"), [])

    def test_the_end_of_a_process_saves_its_lines_in_room_that_was_held(self):
        made = self.supervised(20)
        self.make_room()
        with open(os.path.join(self.folder, ".room-0"), "wb") as room:
            os.posix_fallocate(room.fileno(), 0, 4096)
        with made._lock:
            made._save_kept()
        self.assertEqual(self.names(".room-") + self.names("waiting-") + self.names("lost-"), [])
        first, second = sorted(lines_of(self.folder).values(), key=len)
        self.assertEqual([line[2] for line in first + second], list(range(-1, 20)))

    def test_what_the_room_does_not_hold_is_counted_in_it(self):
        made = self.supervised(200)
        self.make_room()
        with open(os.path.join(self.folder, ".room-0"), "wb") as room:
            os.posix_fallocate(room.fileno(), 0, 1000)
        with made._lock:
            made._save_kept()
        first, second = sorted(lines_of(self.folder).values(), key=len)
        kind, lost = second.pop()
        self.assertEqual((kind, len(first) + len(second) + lost), ("drop", 201))
        self.assertEqual([line[2] for line in first + second], list(range(-1, 200 - lost)))

    def test_the_end_of_a_process_without_room_says_how_many_lines_are_lost(self):
        made = self.supervised(20)
        made.finish()
        written = sum(map(len, lines_of(self.folder).values()))
        (lost,) = self.names("lost-")
        self.assertEqual(int(lost.split("-")[1]), 21 - written)
        self.assertEqual(self.names("waiting-"), [])
        made.scalar("a", 100)  # by a handler of exits that comes later
        self.assertEqual(len(self.names("lost-")) + len(self.names("run_1~")), 3)

    def test_a_folder_that_is_not_there_costs_nothing_until_it_is(self):
        late = os.path.join(self.folder, "late")
        waiting = FileJournal(late, "run_1")
        waiting.scalar("a", 1)
        os.mkdir(late)
        waiting.scalar("a", 2)
        (lines,) = lines_of(late).values()
        self.assertEqual([line[2] for line in lines], [1, 2])


class AProcessThatAFullDiskEnds(unittest.TestCase):
    def notes_of(self, end):
        with tempfile.TemporaryDirectory() as folder:
            script = "\n".join([
                "import errno",
                "from runyard_sdk.recorder import InRunRecorder",
                "InRunRecorder('run_1', {{'RUNYARD_JOURNALS': {0!r}, 'RUNYARD_UPLOADS': {0!r}}})".format(folder),
                end,
            ])
            subprocess.run([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
            return [name.split("-")[0] for name in os.listdir(folder)]

    def test_says_so(self):
        self.assertEqual(self.notes_of("raise OSError(errno.ENOSPC, 'full')"), ["full"])

    def test_says_so_when_another_exception_came_of_it(self):
        end = "try:\n    raise OSError(errno.EDQUOT, 'full')\nexcept OSError as e:\n    raise ValueError() from e"
        self.assertEqual(self.notes_of(end), ["full"])

    def test_imports_nothing_then(self):
        code = "import sys, runyard_sdk.recorder; sys.exit('runyard_sdk.journal' not in sys.modules)"
        self.assertEqual(subprocess.call([sys.executable, "-c", code]), 0)

    def test_says_nothing_of_other_ends(self):
        for end in ("raise OSError(errno.EIO, 'broken')", "raise SystemExit(1)", "pass"):
            self.assertEqual(self.notes_of(end), [])


if __name__ == "__main__":
    unittest.main()
