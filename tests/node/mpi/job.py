"""Nodes of an MPI run without their supervisors: launch servers, environments and process trees."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from runyard.core.records.launch_plan import EnvironmentSpec, LaunchPlan, NodePlan, node_task_name
from runyard.core.records.runs import AttemptId, RunId
from runyard.node.mpi.launch_server import LaunchServer
from runyard.node.mpi.open_mpi import (
    fill_in_mpi_words,
    open_files_of_ranks,
    orted_command,
    rank_variables,
    scratch_variables,
)
from runyard.node.processes.event_loop import EventLoop, now
from runyard.node.processes.procfs import ProcessId, processes_with_variable
from runyard.node.task_folder import TaskFolder

SECRET = "between the nodes of this run"
LAUNCHER_LOG = "55_azureml-execution.txt"
OVER_LOOPBACK = ["--mca", "oob_tcp_if_include", "lo", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
RUN_SECONDS = 120.0


def mpi_plan(addresses: list[str], ranks_per_node: int, *, node: int = 0, shares_files: bool = True) -> LaunchPlan:
    nodes = tuple(
        NodePlan(address, (), name=f"cpu-{k}", ranks=tuple(range(k * ranks_per_node, (k + 1) * ranks_per_node)))
        for k, address in enumerate(addresses)
    )
    return LaunchPlan(
        AttemptId("run-1"),
        RunId("run"),
        "run",
        EnvironmentSpec(),
        nodes,
        node=node,
        secret=SECRET,
        shares_files=shares_files,
    )


class Node:
    """One part of the job."""

    def __init__(
        self, home: Path, plan: LaunchPlan, loop: EventLoop, python: str, enter: Callable[[], None] | None
    ) -> None:
        self.plan, self.loop, self.python, self.enter = plan, loop, python, enter
        self.folder = TaskFolder(home, node_task_name(plan.attempt_id, plan.node))
        self.folder.make_room()
        self.orted: Callable[[list[str]], list[str]] = lambda words: orted_command(
            plan, words, python, self.variables()
        )
        self.daemons: list[int] = []
        self._write_rank_file()
        self.server = LaunchServer(plan, self.folder, self._start_daemon, self._end, loop.on_readable, loop.forget)

    def variables(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder.scripts),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "RUNYARD_RANK_FILE": str(self.folder.scripts / "rank.json"),
            "RUNYARD_PART": self.plan.part,
            "RUNYARD_TEST": str(self.folder.home),
            "PYTHONPATH": f"/packages/of/node/{self.plan.node}",
            "LD_LIBRARY_PATH": f"/libraries/of/node/{self.plan.node}",
            **rank_variables(self.python),
            **scratch_variables(self.folder),
            "DATA": f"/data/of/node/{self.plan.node}",
        }

    def start(self, command: list[str], log: str) -> int:
        with (self.folder.std / log).open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder.work,
                env=self.variables(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=self.enter,
            )
        process.returncode = 0
        return process.pid

    def log(self, name: str) -> str:
        file = self.folder.std / name
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def _start_daemon(self, words: list[str]) -> int:
        pid = self.start(self.orted(words), LAUNCHER_LOG)
        self.daemons.append(pid)
        return pid

    def _end(self, pid: int) -> None:
        for process in processes_with_variable("RUNYARD_TEST", str(self.folder.home)) & processes_with_variable(
            "RUNYARD_PART", self.plan.part
        ):
            process.send(signal.SIGKILL)

    def _write_rank_file(self) -> None:
        facts = {
            "python": self.python,
            "placeholders": {"$AZUREML_DATAREFERENCE_images": f"/images/of/node/{self.plan.node}"},
            "work": str(self.folder.work),
            "std": str(self.folder.std),
            "notices": ["a notice"],
            "files": open_files_of_ranks(),
        }
        (self.folder.scripts / "rank.json").write_text(json.dumps(facts), encoding="utf-8")


class MpiJob:
    """mpirun on node 0 with all nodes on this machine, each behind its own launch server."""

    def __init__(
        self,
        home: Path,
        addresses: list[str],
        ranks_per_node: int = 1,
        *,
        python: str = sys.executable,
        enter: Callable[[], None] | None = None,
        shares_files: bool = True,
    ) -> None:
        self.home, self.loop, self.python = home, EventLoop(), python
        self.plan = mpi_plan(addresses, ranks_per_node, shares_files=shares_files)
        self.nodes = [Node(home, replace(self.plan, node=k), self.loop, python, enter) for k in range(len(addresses))]
        self.launcher = 0

    def start(self, *command: str) -> None:
        first = self.nodes[0]
        roster = [{"door": node.server.address} for node in self.nodes]
        words = fill_in_mpi_words(self.plan, first.folder, roster, self.python, first.variables())
        count = sum(len(node.plan.here.ranks) for node in self.nodes)
        line = ["{mpirun}", "-np", str(count), "--map-by", "slot", "--bind-to", "none", "--oversubscribe"]
        line += ["--hostfile", "{host_file}", "--leave-session-attached", "--mca", "plm", "rsh"]
        line += ["--mca", "plm_rsh_agent", "{rsh_agent}", "--mca", "plm_rsh_no_tree_spawn", "1", *OVER_LOOPBACK]
        line += ["--noprefix"]
        line += ["/bin/sh", "-c", 'exec "$RUNYARD_RANK_PYTHON" -I -S -E "$RUNYARD_RANK_STARTER" "$@"', "{rank_starter}"]
        filled = [words.get(word, word) for word in line]
        self.launcher = first.start([*filled, *command], LAUNCHER_LOG)

    def wait(self) -> int:
        """Until mpirun and the daemons have ended; the exit code of mpirun."""
        self.wait_until(lambda: not self.living() and self.loop.exit_status(self.launcher) is not None)
        return os.waitstatus_to_exitcode(self.loop.exit_status(self.launcher) or 0)

    def wait_until(self, is_done: Callable[[], bool], seconds: float = RUN_SECONDS) -> None:
        ends_at = now() + seconds
        while not is_done():
            assert now() < ends_at, f"still there after {seconds} s: {self.living()}\n{self.said()}"
            self.loop.wait(0.02)
            self._notify_servers()

    def living(self) -> set[ProcessId]:
        """All processes of the job, wherever they hang."""
        return processes_with_variable("RUNYARD_TEST", str(self.home))

    def ranks(self) -> dict[int, ProcessId]:
        found = {}
        for process in self.living():
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
                for text in variables:
                    if text.startswith(b"RUNYARD_RANK="):
                        found[int(text.partition(b"=")[2])] = process
        return found

    def said(self) -> str:
        return "\n".join(node.log(LAUNCHER_LOG) for node in self.nodes)

    def close(self) -> None:
        for process in self.living():
            process.send(signal.SIGKILL)
        self.wait_until(lambda: not self.living(), 10.0)
        for node in self.nodes:
            node.server.close()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def _notify_servers(self) -> None:
        for node in self.nodes:
            for pid in list(node.daemons):
                if (status := self.loop.exit_status(pid)) is not None:
                    node.daemons.remove(pid)
                    node.server.ended(pid, status)
