import json
import logging
import os
import subprocess
import sys

from runyard.process_logs.lines import encode_line, format_line, log_line

PROGRAM = """
import logging, sys, threading
from pathlib import Path
from runyard.process_logs import configure_logging
configure_logging("service", Path(sys.argv[1]))
log = logging.getLogger("runyard.part")
"""


def a_record(message, *arguments, **extra):
    record = logging.LogRecord("runyard.part", logging.INFO, __file__, 1, message, arguments, None)
    for name, value in extra.items():
        setattr(record, name, value)
    return record


def logged(home, program, **options):
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program, str(home)], capture_output=True, text=True, timeout=60, **options
    )
    file = home / "process-logs" / "service.jsonl"
    return done, [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_line_tells_time_level_component_run_and_message():
    line = json.loads(encode_line(log_line(a_record("%s after %s.", "Running", "Queued", run="r1"), "service")))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "component": "service",
        "pid": os.getpid(),
        "logger": "runyard.part",
        "message": "Running after Queued.",
        "run": "r1",
    }


def test_a_line_for_people_cannot_be_forged():
    line = log_line(a_record("a name\n2026-01-01T00:00:00.000Z error \x1b[31mred", run="r\n1"), "service")
    assert format_line(line).count("\n") == 1
    assert "\x1b" not in format_line(line)


def test_arguments_that_do_not_fit_the_message_are_no_error():
    assert log_line(a_record("%d lines", "many"), "service")["message"] == "%d lines ('many',)"


def test_what_is_no_text_is_logged_all_the_same():
    assert b"\\udcff" in encode_line(log_line(a_record("a \udcff name"), "service"))


def test_an_uncaught_exception_is_in_the_log_with_its_traceback(tmp_path):
    program = "threading.Thread(target=lambda: 1 / 0, name='worker').start()\nraise ValueError('no good')"
    done, lines = logged(tmp_path / "home", program)
    assert done.returncode == 1
    by_message = {line["message"]: line for line in lines}
    assert "no good" in by_message["Uncaught ValueError."]["error"]
    assert "ZeroDivisionError" in by_message["Uncaught ZeroDivisionError in thread worker."]["error"]
    assert "no good" in done.stderr


def test_the_level_is_a_setting(tmp_path):
    program = "log.debug('one'); log.info('two'); log.warning('three'); logging.getLogger('other').info('four')"
    for level, expected in {"debug": 3, "info": 2, "warning": 1, "error": 0, "nonsense": 2}.items():
        environment = {**os.environ, "RUNYARD_LOG_LEVEL": level}
        _, lines = logged(tmp_path / level, program, env=environment)
        assert len(lines) == expected, level


def test_a_pipe_that_nobody_reads_holds_nothing_up(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    program = PROGRAM + "for number in range(3000): log.warning('line %d %s', number, 'x' * 100)"
    stuck, written = os.pipe()
    try:
        done = subprocess.run([sys.executable, "-c", program, str(home)], stderr=written, timeout=60)
    finally:
        os.close(stuck)
        os.close(written)
    assert done.returncode == 0
    assert len((home / "process-logs" / "service.jsonl").read_text().splitlines()) == 3000


def test_a_home_that_cannot_be_written_is_no_error(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "process-logs").write_text("a file in its place")
    done, _ = logged(home, "log.warning('said'); print('went on')")
    assert done.stdout == "went on\n"
    assert "said" in done.stderr
