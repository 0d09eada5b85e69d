import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from runyard.process_logs.output import RotatingFile, rotated_path
from runyard.process_logs.reader import ProcessLogTail, merge_tails
from runyard.testing.small_disk import mounted

SMALL = 10_000
# All lines together are less than two files: whoever is stopped while it rotates makes nobody else lose one.
WRITER = """
import json, sys
from pathlib import Path
from runyard.process_logs.output import RotatingFile
file = RotatingFile(Path(sys.argv[1]), lambda lost: b"lost\\n", most_bytes=45_000, count=5)
for number in range(300):
    file.write(json.dumps({"writer": sys.argv[2], "number": number, "message": "x" * 50}).encode() + b"\\n")
"""


def lost(lines: int) -> bytes:
    return b'{"message": "%d lost"}\n' % lines


def opened(home: Path, **options: int) -> RotatingFile:
    return RotatingFile(home / "process-logs" / "service.jsonl", lost, **{"most_bytes": SMALL, "count": 3, **options})


def lines_of(home: Path) -> list[dict]:
    return list(merge_tails([ProcessLogTail(home, "service")]))


def numbered_line(number: int) -> bytes:
    return json.dumps({"number": number, "message": "x" * 80}).encode() + b"\n"


def test_a_log_keeps_to_its_number_of_files_and_their_size(tmp_path):
    file = opened(tmp_path)
    for number in range(1000):
        file.write(numbered_line(number))
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "process-logs").glob("service.jsonl*")}
    assert sorted(sizes) == ["service.jsonl", "service.jsonl.1", "service.jsonl.2"]
    assert max(sizes.values()) <= SMALL
    kept = [line["number"] for line in lines_of(tmp_path)]
    assert kept == list(range(kept[0], 1000))
    assert len(kept) > 150


def test_a_log_is_its_owners_alone(tmp_path):
    opened(tmp_path).write(b"{}\n")
    assert (tmp_path / "process-logs").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "process-logs" / "service.jsonl").stat().st_mode & 0o777 == 0o600


def test_several_processes_lose_no_line_when_they_rotate(tmp_path):
    path = tmp_path / "process-logs" / "service.jsonl"
    several = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)]) for number in range(3)]
    seen, tail, ended = [], ProcessLogTail(tmp_path, "service"), threading.Event()

    def follow():
        while not ended.is_set():
            seen.extend(tail.fresh())

    following = threading.Thread(target=follow)
    following.start()
    assert [process.wait(60) for process in several] == [0, 0, 0]
    ended.set()
    following.join()
    kept = lines_of(tmp_path)
    assert all("writer" in line for line in kept), "a torn line"
    for writer in "012":
        numbers = [line["number"] for line in kept if line["writer"] == writer]
        assert numbers == list(range(300 - len(numbers), 300))
    assert len(list(path.parent.glob("service.jsonl*"))) <= 5
    assert seen, "a reader follows meanwhile"


def test_a_full_disk_loses_lines_and_says_how_many(tmp_path):
    with mounted(tmp_path / "disk", 1) as disk:
        file = opened(disk, most_bytes=1 << 22)
        filler = disk / "filler"
        filler.write_bytes(b"x" * 900_000)
        for number in range(3000):
            file.write(numbered_line(number))
        filler.unlink()
        file.write(b'{"message": "room again"}\n')
        kept = lines_of(disk)
        file.close()
    whole = [line for line in kept if "number" in line]
    assert 0 < len(whole) < 3000
    told = [line["message"] for line in kept if line["message"].endswith(" lost")]
    assert told == [f"{3000 - len(whole)} lost"]
    assert kept[-1] == {"message": "room again"}


def test_a_kill_between_two_renames_is_mended_by_the_next_rotation(tmp_path):
    file = opened(tmp_path)
    for number in range(300):
        file.write(numbered_line(number))
    path = tmp_path / "process-logs" / "service.jsonl"
    path.replace(rotated_path(path, 1))  # the last rename, of a process that was killed after it
    for number in range(300, 600):
        file.write(numbered_line(number))
    kept = [line["number"] for line in lines_of(tmp_path)]
    assert kept == list(range(kept[0], 600))


def test_a_stopped_process_that_holds_the_lock_lets_the_log_grow_to_twice_its_size_at_most(tmp_path):
    file = opened(tmp_path)
    file.write(numbered_line(0))
    holding = (
        "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    )
    lock = tmp_path / "process-logs" / ".service.jsonl.lock"
    holder = subprocess.Popen([sys.executable, "-c", holding, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    for number in range(1000):
        file.write(numbered_line(number))
    assert (tmp_path / "process-logs" / "service.jsonl").stat().st_size < 3 * SMALL
    holder.communicate(b"\n")
    file.write(numbered_line(1000))
    assert [line["number"] for line in lines_of(tmp_path) if "number" in line][-1] == 1000
    assert any(line["message"].endswith(" lost") for line in lines_of(tmp_path))


def test_a_log_makes_its_folder_again_and_never_its_home(tmp_path):
    home = tmp_path / "home"
    file = opened(home)
    file.write(b"{}\n")
    assert not home.exists()
    home.mkdir()
    file.write(b"{}\n")
    path = home / "process-logs" / "service.jsonl"
    path.unlink()
    os.rmdir(path.parent)
    file.write(b'{"message": "here"}\n')
    assert lines_of(home)[-1] == {"message": "here"}
