import json
import os
import socket
import sys
from pathlib import Path

from runyard.node.attempt import AttemptFolder
from runyard.node.keeping import ForkedKeeper, leave_all, send_order
from runyard.node.starting import Start

EXITS_WITH_3 = [sys.executable, "-c", "raise SystemExit(3)"]


def fork_keeper(home: Path) -> tuple[int, socket.socket]:
    (home / "attempts" / "run.1" / "ends").mkdir(parents=True)
    keeper = ForkedKeeper(AttemptFolder(home, "run.1"), leave_all, None)
    return keeper.pid, keeper.order


def ends_in(home: Path) -> list[str]:
    return sorted(os.listdir(home / "attempts" / "run.1" / "ends"))


def order_of(tmp_path: Path, command: list[str]) -> list[Start]:
    return [Start("0", command, {}, str(tmp_path), str(tmp_path / "log.txt"))]


def test_a_supervisor_killed_while_the_script_starts_does_not_take_the_keeper_along(tmp_path: Path) -> None:
    """Nobody reads the pids that the keeper tells; it keeps the exit status all the same."""
    home = tmp_path / "home"
    pid, order = fork_keeper(home)
    send_order(order, order_of(tmp_path, EXITS_WITH_3), [])
    order.close()
    os.waitpid(pid, 0)
    assert json.loads((home / "attempts" / "run.1" / "ends" / "0").read_bytes())["status"] == 3 << 8


def test_an_order_cut_short_starts_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    body = b"." + json.dumps([vars(one) for one in order_of(tmp_path, EXITS_WITH_3)]).encode()
    for length in (0, 1, len(body) // 2, len(body) - 1):
        pid, order = fork_keeper(home / str(length))
        order.sendall(body[:length])
        order.close()
        os.waitpid(pid, 0)
        assert ends_in(home / str(length)) == []


def test_the_keeper_holds_files_that_were_opened_after_its_fork(tmp_path: Path) -> None:
    """More than the kernel passes in one message."""
    home = tmp_path / "home"
    pid, order = fork_keeper(home)
    (tmp_path / "held").mkdir()
    files = [os.open(tmp_path / "held" / str(number), os.O_CREAT | os.O_WRONLY) for number in range(300)]
    shows = "import os; print(os.popen(f'ls -l /proc/{os.getppid()}/fd').read().count('/held/'))"
    send_order(order, order_of(tmp_path, [sys.executable, "-c", shows]), files)
    for file in files:
        os.close(file)
    order.close()
    os.waitpid(pid, 0)
    assert (tmp_path / "log.txt").read_text() == "300\n"
