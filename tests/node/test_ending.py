import pytest

from runyard.node.ending import ended_by_itself, last_raised

CHAINED = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    raise my.module.Broken("no: way") from e
my.module.Broken: no: way
and a second line
"""


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        (CHAINED, "Broken: no: way"),
        ('Traceback (most recent call last):\n  File "a"\nKeyboardInterrupt\n', "KeyboardInterrupt"),
        ("all went well\n", ""),
        ('Traceback (most recent call last):\n  File "a.py"', ""),
    ],
)
def test_the_last_exception_is_found_in_the_log(text, raised):
    assert last_raised(text) == raised


def test_only_the_end_of_a_huge_log_is_read(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"x" * (1 << 22) + b"\n" + CHAINED.encode())
    ending = ended_by_itself(1 << 8, log, rank=0, memory_ran_out=False, disk_is_full=False)
    assert ending.error == {"code": "UserError", "message": "User program failed with Broken: no: way"}
    assert len(ending.tail) < 1 << 16


def test_memory_is_blamed_only_when_the_kernel_killed_for_it(tmp_path):
    killed = ended_by_itself(9, tmp_path / "none", rank=0, memory_ran_out=True, disk_is_full=False)
    crashed = ended_by_itself(11, tmp_path / "none", rank=0, memory_ran_out=True, disk_is_full=False)
    assert (killed.oom, crashed.oom) == (True, False)
    assert "ran out of memory" in killed.error["message"]


def test_a_full_disk_is_named_where_the_log_could_not_tell(tmp_path):
    ending = ended_by_itself(1 << 8, tmp_path / "none", rank=0, memory_ran_out=False, disk_is_full=True)
    assert "no space left on the node's disk" in ending.error["message"]
