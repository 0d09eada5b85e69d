"""Images for the files of examples/server: a Debian with PostgreSQL to build from, made here, and the wheels that the
build installs, brought by this machine's own pip and served on loopback."""

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SERVER = REPOSITORY / "examples" / "server"
BASE = "debian-server:12"
POSTGRES_IMAGE = "debian-postgres:12"
# What the official image does with the same variables, as far as the compose file needs it.
POSTGRES_ENTRY = r"""#!/bin/sh
set -eu
bin=$(echo /usr/lib/postgresql/*/bin) data=/var/lib/postgresql/data
as_postgres="setpriv --reuid postgres --regid postgres --clear-groups"
if [ ! -s $data/PG_VERSION ]; then
  install -d -m 0700 -o postgres -g postgres $data
  printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
  chown postgres /tmp/password
  $as_postgres $bin/initdb --pgdata $data --username "$POSTGRES_USER" --pwfile /tmp/password \
    --auth scram-sha-256 --encoding UTF8 --no-sync
  echo "host all all all scram-sha-256" >> $data/pg_hba.conf
  echo "CREATE DATABASE $POSTGRES_DB" | $as_postgres $bin/postgres --single -D $data postgres
fi
exec $as_postgres $bin/postgres -D $data -c listen_addresses='*'
"""
POSTGRES_DOCKERFILE = f"""FROM {BASE}
COPY entry.sh /entry.sh
STOPSIGNAL SIGINT
CMD ["/bin/sh", "/entry.sh"]
"""

MACHINE_IMAGE = "debian-machine:12"
# A machine with systemd on which Runyard is installed, and nothing else of it.
MACHINE_DOCKERFILE = f"""FROM runyard AS built
FROM {BASE}
COPY --from=built /opt/runyard /opt/runyard
"""


def page_blocks(heading: str) -> list[str]:
    """The blocks of docs/server.md below a heading that need an engine or systemd."""
    page = (REPOSITORY / "docs" / "server.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


class Shell:
    """The commands of a person who runs the server, against one engine."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.variables = {**os.environ, "DOCKER_HOST": address, "DOCKER_BUILDKIT": "0", "HOME": str(folder)}

    def __call__(self, *command: str, timeout: float = 600) -> str:
        done = subprocess.run(
            command, env=self.variables, cwd=self.folder, capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-6000:]}"
        return done.stdout

    def follow(self, block: str, changes: Mapping[str, str]) -> str:
        """Run a block of the page with some of its words replaced."""
        for word, other in changes.items():
            assert word in block, (word, block)
            block = block.replace(word, other)
        return self("bash", "-euo", "pipefail", "-c", block)

    def build(self, image: str, dockerfile: str) -> None:
        context = self.folder / image.partition(":")[0]
        context.mkdir()
        (context / "entry.sh").write_text(POSTGRES_ENTRY, encoding="utf-8")
        (context / "Dockerfile").write_text(dockerfile, encoding="utf-8")
        self("docker", "build", "--quiet", "--tag", image, str(context))


def bring_wheels(folder: Path) -> None:
    """What the service needs, by the settings that pip has on this machine."""
    packages = REPOSITORY / "packages"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder)),
            *("--constraint", str(REPOSITORY / "constraints.txt"), "pip", "setuptools"),
            *(str(packages / "sdk"), f"{packages / 'runyard'}[otel,postgres]"),
        ],
        check=True,
        capture_output=True,
    )


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a page of links to the files."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            serving.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *given: object) -> None:
        pass
