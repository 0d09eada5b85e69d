"""What a task needs beside its processes: container, and in a distributed run ports, network and launch server."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from runyard.core.errors import EngineError, Json
from runyard.core.records.launch_plan import LaunchPlan
from runyard.environments.containers.containers import Mount
from runyard.node.containers.supervisor import ContainerSupervisor
from runyard.node.containers.task_container import ContainerSetting, StartForkedTask, TaskContainer
from runyard.node.mpi.launch_server import LaunchServer
from runyard.node.mpi.open_mpi import (
    clear_shared_memory,
    fill_in_mpi_words,
    limit_open_files,
    open_files_of_ranks,
    orted_command,
    prepare_shared_memory,
    rank_variables,
    require_open_mpi,
    scratch_variables,
)
from runyard.node.network.ports import PortLocks
from runyard.node.network.private_network import PrivateNetwork, why_no_private_network
from runyard.node.processes.event_loop import Readable
from runyard.node.processes.forked_task import ForkedTask, Notify
from runyard.node.processes.process_tree import ProcessTree
from runyard.node.supervisor.launch import Launch
from runyard.node.supervisor.loop import StopRequest, SupervisorLoop
from runyard.node.supervisor.preparation import PreparedTask
from runyard.node.supervisor.rendezvous import await_roster
from runyard.node.task_folder import TaskFolder, list_ranks

READY_FILE = "ready.json"
"""Written before the other nodes learn this task's ports: from then on it cannot start over."""
_MOST_RECONNECTIONS = 5
RunForkedTask = Callable[[Callable[[Notify], Json], Callable[[Json], None]], ForkedTask]


class TaskSetup:
    """Sets up a task and makes its `Launch`. Ports, network and launch server are held until `close`, after the task's
    last process; the kernel frees them when the supervisor dies."""

    def __init__(
        self,
        folder: TaskFolder,
        plan: LaunchPlan,
        loop: SupervisorLoop,
        tree: ProcessTree,
        containers: ContainerSupervisor,
    ) -> None:
        self._folder, self._plan, self._loop, self._tree = folder, plan, loop, tree
        self._containers = containers
        self._is_mpi = any(node.ranks for node in plan.nodes)
        self._ports: PortLocks | None = None
        self._network: PrivateNetwork | None = None
        self._launch_server: LaunchServer | None = None
        self._watched_after_launch: list[tuple[Readable | int, Callable[[], None]]] = []
        self._launch: Launch | None = None
        self._private_ports = folder.home / "ports" / plan.attempt_id

    def launch(
        self, prepared: PreparedTask, sdk: Path, run_forked: RunForkedTask, start_forked: StartForkedTask
    ) -> Launch | None:
        """Return what the processes are started with, once all nodes are ready. None where the task is to stop.

        Raises RunyardError with a message for the user.
        """
        bare = Launch(
            self._folder,
            self._plan,
            prepared,
            sdk,
            of_launchers=self._variables_of_launchers(prepared),
        )
        if prepared.image:
            make = partial(self._container, prepared, sdk, start_forked)
            bare = replace(bare, container=make(), of_daemons=make)
        if not self._plan.is_distributed:
            return bare
        facts = self._prepare_node(bare)
        roster = self._await_nodes(facts, run_forked) if len(self._plan.nodes) > 1 else [facts]
        if roster is None:
            return None
        self._join(roster)
        enter = self._enter if self._is_mpi or self._network is not None else None
        self._launch = replace(bare, roster=roster, words=self._words(bare, roster), enter=enter)
        for source, callback in self._watched_after_launch:
            self._loop.events.on_readable(source, callback)
        return self._launch

    @property
    def pids(self) -> set[int]:
        """Processes that hold the private network."""
        return set(self._network.pids) if self._network is not None else set()

    def close(self) -> None:
        if self._launch_server is not None:
            self._launch_server.close()
        network, self._network = self._network, None
        if network is not None:
            network.close()
        if self._ports is not None:
            self._ports.close()
        if self._plan.node == 0:  # also what an earlier supervisor left
            shutil.rmtree(self._private_ports, ignore_errors=True)
        if self._is_mpi:
            clear_shared_memory(self._plan)

    def _container(self, prepared: PreparedTask, sdk: Path, start_forked: StartForkedTask) -> TaskContainer:
        setting = ContainerSetting(
            folder=self._folder,
            plan=self._plan,
            image=prepared.image,
            python=prepared.python,
            sdk=sdk,
            data=[Mount(bind.source, bind.target, bind.is_read_only) for bind in prepared.data.binds],
            served=prepared.data.mount_points,
        )
        return TaskContainer(setting, self._loop.events, start_forked, self._containers)

    def _prepare_node(self, bare: Launch) -> Json:
        plan, home = self._plan, self._folder.home
        is_private = plan.shares_files and not bare.prepared.image and not why_no_private_network()
        self._ports = PortLocks(self._private_ports if is_private else home / "ports")
        if is_private and plan.node == 0:
            self._network = self._make_network(bare)
        if self._is_mpi:
            self._prepare_ranks(bare)
        return {
            "address": plan.here.address,
            "name": plan.here.name,
            "ports": self._ports.choose(plan.here.ports),
            # The name in the wire format.
            "door": self._launch_server.address if self._launch_server is not None else None,
            "network": self._network.pid if self._network is not None else None,
            "is_essential": any(spec.is_essential for spec in plan.here.processes),
            "ranks": list_ranks(plan),
        }

    def _make_network(self, bare: Launch) -> PrivateNetwork | None:
        """Make the private network. None, with a line in the node's log, where that fails unexpectedly."""
        try:
            network = PrivateNetwork.make(self._folder.root, bare.variables(self._plan.here.env, None))
        except EngineError as e:
            if os.environ.get("RUNYARD_NETWORK") == "private":
                raise
            self._log_line(f"The run uses the machine's own network, where its servers can be reached: {e}")
            return None
        self._keep_connected(network, _MOST_RECONNECTIONS)
        return network

    def _keep_connected(self, network: PrivateNetwork, tries_left: int) -> None:
        """Restart pasta when it was killed, so that the run reaches the internet and the service again."""

        def ended(status: int) -> None:
            if self._network is not network or tries_left == 0:
                return
            try:
                network.reconnect()
                self._keep_connected(network, tries_left - 1)
                self._log_line("What connects the run's network with the world had ended and was started again.")
            except EngineError as e:
                self._log_line(f"The run is cut off from the world: {e}")

        if network.connection is not None:
            self._loop.events.on_exit(network.connection, ended)

    def _log_line(self, text: str) -> None:
        with self._folder.node_log.open("a", encoding="utf-8") as log:
            print(text, file=log)

    def _variables_of_launchers(self, prepared: PreparedTask) -> dict[str, str]:
        if not self._is_mpi:
            return {}
        return {
            **rank_variables(prepared.python),
            **scratch_variables(self._folder),
            # A container has its own shared memory, which is removed with it.
            **({} if prepared.image and self._plan.container.ipc != "host" else prepare_shared_memory(self._plan)),
            "RUNYARD_RANK_FILE": str(self._folder.rank_file),
        }

    def _prepare_ranks(self, bare: Launch) -> None:
        if not bare.prepared.image:
            require_open_mpi(self._plan, bare.prepared.python, bare.variables(self._plan.here.env, None))
        ranks: Json = {
            "python": bare.prepared.python,
            "placeholders": dict(bare.placeholders()),
            "work": str(self._folder.work),
            "std": str(self._folder.std),
            "notices": bare.notices() if self._plan.node == 0 else [],
            "files": open_files_of_ranks(),
        }
        self._folder.write_for_script(self._folder.rank_file.name, ranks)
        if len(self._plan.nodes) > 1:
            self._launch_server = LaunchServer(
                self._plan, self._folder, self._start_daemon, self._tree.ask_to_stop, self._watch, self._unwatch
            )

    def _await_nodes(self, facts: Json, run_forked: RunForkedTask) -> list[Json] | None:
        home, plan = self._folder.home, self._plan
        self._folder.write(READY_FILE, facts)
        forked = run_forked(lambda notify: await_roster(home, plan, facts), lambda message: None)
        if forked.done is None:
            if self._loop.stop is not None:
                return None
            reason = (forked.error or {}).get("message", "its process was killed.")
            raise EngineError(f"The nodes of the run did not all become ready: {reason}")
        if "end_as" in forked.done:
            self._loop.take(StopRequest(plan.cancel_grace_seconds, forked.done["end_as"]))
            return None
        roster: list[Json] = forked.done["roster"]
        return roster

    def _join(self, roster: list[Json]) -> None:
        holder = roster[0].get("network")
        if holder is not None and self._network is None:
            self._network = PrivateNetwork.join(int(holder))

    def _enter(self) -> None:
        """Called in each new process of the task before it executes its program."""
        if self._is_mpi:
            limit_open_files()
        if self._network is not None:
            self._network.enter()

    def _words(self, bare: Launch, roster: list[Json]) -> dict[str, str]:
        if not self._is_mpi:
            return {}
        variables = bare.variables(self._plan.here.env, None)
        in_image = bool(bare.prepared.image)
        return fill_in_mpi_words(self._plan, self._folder, roster, bare.prepared.python, variables, in_image=in_image)

    def _start_daemon(self, words: list[str]) -> int:
        if self._launch is None or self._launch_server is None:
            raise EngineError("This node is not ready to start a daemon.")
        launch, server = self._launch, self._launch_server
        variables = launch.variables(self._plan.here.env, None)
        name = self._plan.here.name or str(self._plan.node)
        prepared = launch.prepared
        command = orted_command(self._plan, words, prepared.python, variables, in_image=bool(prepared.image))
        pid, container = launch.start_daemon(command, self._folder.std / f"55_azureml-execution-{name}.txt")

        def ended(status: int) -> None:
            server.ended(pid, status, container.why_not_started() if container is not None else "")

        self._loop.events.on_exit(pid, ended)
        return pid

    def _watch(self, source: Readable | int, callback: Callable[[], None]) -> None:
        """Watch a connection, but not before this node knows what to start daemons with."""
        if self._launch is None:
            self._watched_after_launch.append((source, callback))
        else:
            self._loop.events.on_readable(source, callback)

    def _unwatch(self, source: Readable | int) -> None:
        if self._launch is not None:
            self._loop.events.forget(source)
