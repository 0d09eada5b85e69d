import re
import threading
from pathlib import Path

import pytest

from runyard.core.records.runs import RunId
from runyard.runs.kinds.sweep.log import SWEEP_LOG, LoggedLine, LogSource, SweepLogs
from runyard.storage.blobs.logs import FileLogStore
from runyard.testing.clock import FakeClock

SWEEP = RunId("HD_1")
LINE = re.compile(r"<START>\[2026-01-01T00:00:00\.000000\]\[(API|GENERATOR|SCHEDULER|CONTROLLER)\]\[INFO\](.*)<END>")


class Written:
    def __init__(self, folder: Path) -> None:
        self.store = FileLogStore(folder)
        self.logs = SweepLogs(self.store, FakeClock())

    @property
    def lines(self) -> list[str]:
        text = self.store.read(SWEEP, SWEEP_LOG).decode()
        assert text.endswith("\n")
        found = [LINE.fullmatch(line) for line in text.split("\n")[:-1]]
        assert all(found), text
        return [one[2] for one in found if one]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def test_lines_are_as_in_the_original(written: Written) -> None:
    written.logs.write(SWEEP, LogSource.API, "created", "and more")
    assert written.store.read(SWEEP, SWEEP_LOG) == (
        b"<START>[2026-01-01T00:00:00.000000][API][INFO]created<END>\n"
        b"<START>[2026-01-01T00:00:00.000000][API][INFO]and more<END>\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\nc", "a\\nb\\r\\nc"),
        ("x<END>\n<START>[now][API][INFO]forged<END>", "x&lt;END>\\n&lt;START>[now][API][INFO]forged&lt;END>"),
        ("nul \0, line \u2028, bell \a", "nul \\x00, line \\u2028, bell \\x07"),
        ("lone \ud800", "lone \\ud800"),
        ("größe 大 <END", "größe 大 <END"),
    ],
)
def test_no_value_can_end_a_line_or_begin_another(written: Written, text: str, shown: str) -> None:
    written.logs.write(SWEEP, LogSource.GENERATOR, text, "next")
    assert written.lines == [shown, "next"]


def test_a_line_has_a_bound(written: Written) -> None:
    written.logs.write(SWEEP, LogSource.GENERATOR, "y" * 10_000)
    assert written.lines == ["y" * 2_000 + "... (8000 more characters)"]


def test_lines_of_several_threads_and_services_are_never_mixed(written: Written) -> None:
    def write(name: str) -> None:
        for place in range(50):
            written.logs.write(SWEEP, LogSource.CONTROLLER, f"{name} {place} " + name * 300)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    SweepLogs(written.store, FakeClock()).write(SWEEP, LogSource.API, "at the end")
    assert len(written.lines) == 201
    assert sorted(written.lines[:-1]) == sorted(
        f"{name} {place} " + name * 300 for name in "abcd" for place in range(50)
    )
    assert written.lines[-1] == "at the end"


def test_what_was_said_of_a_child_is_found(written: Written) -> None:
    assert written.logs.logged_lines(SWEEP) == set()
    written.logs.write(SWEEP, LogSource.GENERATOR, "HD_1_0 sampled: {}")
    written.logs.write(SWEEP, LogSource.CONTROLLER, "HD_1_0 ended: Completed.")
    assert written.logs.logged_lines(SWEEP) == {
        LoggedLine("GENERATOR", "HD_1_0", "sampled"),
        LoggedLine("CONTROLLER", "HD_1_0", "ended"),
    }
