"""What a person types instead: mpirun with a host file, and torch's processes one by one."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# What ssh would do on another machine: the words, through a shell. Daemons of one machine must not share a folder for
# their files: now and then one of them ends at once, and mpirun waits for it for ever.
_AGENT = """#!/bin/sh
export OMPI_MCA_orte_tmpdir_base="${0%/*}/$1"
mkdir -p "$OMPI_MCA_orte_tmpdir_base"
shift
exec sh -c "$*"
"""
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_SECONDS = 600
_LOOPBACK = {"oob_tcp_if_include": "lo", "btl": "tcp,self", "btl_tcp_if_include": "lo"}


def mpirun(command: Sequence[str], *, nodes: int, folder: Path, variables: Mapping[str, str] = {}) -> str:
    """Run one rank on each of so many loopback nodes, by the transport that Runyard takes; what they printed."""
    agent, hosts = folder / "rsh.sh", folder / "hosts"
    agent.write_text(_AGENT, encoding="utf-8")
    agent.chmod(0o755)
    hosts.write_text("".join(f"127.0.9.{node + 2} slots=1\n" for node in range(nodes)), encoding="utf-8")
    settings = {"plm": "rsh", "plm_rsh_agent": str(agent), "plm_rsh_no_tree_spawn": "1", **_LOOPBACK}
    words = ["mpirun", "-np", str(nodes), "--hostfile", str(hosts), "--oversubscribe", "--bind-to", "none"]
    words += [word for name, value in settings.items() for word in ("--mca", name, value)]
    exported = [word for name in variables for word in ("-x", name)]
    environment = {**os.environ, **_AS_ROOT, **variables}
    done = subprocess.run(
        [*words, *exported, *command], env=environment, capture_output=True, text=True, check=True, timeout=_SECONDS
    )
    return done.stdout


def torch_ranks(command: Sequence[str], *, ranks: int, port: int, variables: Mapping[str, str] = {}) -> list[str]:
    """Start torch's processes with their variables; what each printed."""
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(ranks),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, **common, **variables, "RANK": str(rank), "LOCAL_RANK": "0"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    return [process.communicate()[0] for process in started]
