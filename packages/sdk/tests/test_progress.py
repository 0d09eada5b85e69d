import io
import os
import pty
import sys
import types
import unittest
from contextlib import redirect_stderr, redirect_stdout

from runyard_sdk import progress as shown
from runyard_sdk.progress import Progress, readable_size


class WithoutDelay(unittest.TestCase):
    """Displays that draw at once."""

    def setUp(self):
        for display in (shown._Terminal, shown._Notebook, shown._Lines):
            kept = display.first_after, display.every
            display.first_after, display.every = 0, 0
            self.addCleanup(self.restore, display, kept)

    @staticmethod
    def restore(display, kept):
        display.first_after, display.every = kept


def transfer(progress):
    with progress:
        progress.add_bytes(50)
        progress.print_line("One file is there")
        progress.add_bytes(50)
        progress.file_done()


class Displays(WithoutDelay):
    def test_elsewhere_there_are_plain_lines(self):
        said, out = io.StringIO(), io.StringIO()
        with redirect_stderr(said), redirect_stdout(out):
            transfer(Progress("Uploading", 1, 100))
        self.assertRegex(said.getvalue().splitlines()[0], r"^Uploading: 0 of 1 files, 50 B of 100 B, .*/s$")
        self.assertEqual(out.getvalue(), "One file is there\n")

    def test_a_terminal_gets_a_bar_that_is_cleared_at_the_end(self):
        ours, its = pty.openpty()
        self.addCleanup(os.close, ours)
        with os.fdopen(its, "w") as terminal, redirect_stderr(terminal), redirect_stdout(io.StringIO()):
            transfer(Progress("Uploading", 1, 100))
            terminal.write("end")
            terminal.flush()
            drawn = ""
            while not drawn.endswith("end"):
                drawn += os.read(ours, 65536).decode("utf-8")
        self.assertIn("Uploading  50% [############............]", drawn)
        self.assertTrue(drawn.endswith("\r\x1b[Kend"))

    def test_a_notebook_gets_one_bar_that_is_updated(self):
        displayed, updated = [], []
        handle = types.SimpleNamespace(update=lambda bar: updated.append(bar))
        display = types.ModuleType("IPython.display")
        display.HTML = str
        display.display = lambda bar, display_id: displayed.append(bar) or handle
        kernel = types.ModuleType("IPython")
        kernel.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        kernel.display = display
        sys.modules.update({"IPython": kernel, "IPython.display": display})
        self.addCleanup(sys.modules.pop, "IPython")
        self.addCleanup(sys.modules.pop, "IPython.display")
        with redirect_stdout(io.StringIO()):
            transfer(Progress("Uploading <b>", 1, 100))
        self.assertEqual(len(displayed), 1)
        self.assertIn("Uploading &lt;b&gt; <progress value='0.5000' max='1'>", displayed[0])
        self.assertIn("value='1.0000'", updated[-1])

    def test_a_display_that_breaks_does_not_break_the_transfer(self):
        broken = open(os.devnull, "w")
        broken.close()
        with redirect_stderr(broken), redirect_stdout(io.StringIO()):
            transfer(Progress("Uploading", 1, 100))

    def test_unshown_it_says_nothing_but_the_lines_asked_for(self):
        said, out = io.StringIO(), io.StringIO()
        with redirect_stderr(said), redirect_stdout(out):
            transfer(Progress("Uploading", 1, 100, is_shown=False))
        self.assertEqual((said.getvalue(), out.getvalue()), ("", "One file is there\n"))


class Words(unittest.TestCase):
    def test_sizes_are_readable(self):
        self.assertEqual([readable_size(count) for count in (0, 999, 1500, 999960, 2.5e9, 3e15)],
                         ["0 B", "999 B", "1.5 KB", "1.0 MB", "2.5 GB", "3000.0 TB"])

    def test_the_share_stays_between_none_and_all(self):
        progress = Progress("x", 0, 10, is_shown=False)
        progress.add_bytes(20)
        self.assertEqual(progress.share, 1.0)
        progress.add_bytes(-40)
        self.assertEqual(progress.share, 0.0)
        self.assertEqual(Progress("x", is_shown=False).share, 0.0)


if __name__ == "__main__":
    unittest.main()
