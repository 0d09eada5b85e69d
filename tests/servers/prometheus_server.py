import json
import os
import shutil
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.faults.yard import eventually
from tests.servers.process import START_SECONDS, ServerProcess


def program(name: str) -> str:
    """prometheus or promtool."""
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed: run `make ci-setup`.")
    return found


class PrometheusServer:
    """Debian's Prometheus on a free loopback port, scraping one service every second."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._server = folder, ServerProcess(folder)

    def start(self, url: str, token: str, rule_files: Sequence[Path] = ()) -> None:
        credentials, config = self._folder / "token", self._folder / "prometheus.yml"
        credentials.write_text(token)
        scrape = {
            "job_name": "runyard",
            "authorization": {"credentials_file": str(credentials)},
            "static_configs": [{"targets": [urlsplit(url).netloc]}],
        }
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file) for file in rule_files],
            "scrape_configs": [scrape],
        }
        config.write_text(json.dumps(settings))  # which is YAML, too
        listening = f"--web.listen-address=127.0.0.1:{self._server.port}"
        storage = f"--storage.tsdb.path={self._folder / 'data'}"
        self._server.start([program("prometheus"), f"--config.file={config}", storage, listening], os.environ)
        eventually(self._is_ready, "Prometheus being ready", START_SECONDS)

    def stop(self) -> None:
        self._server.kill()

    def _is_ready(self) -> bool:
        """It listens before it answers queries."""
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self._server.port}/-/ready", timeout=30).close()
        except OSError:
            return False
        return True

    def ask(self, path: str, **query: str) -> Any:
        address = f"http://127.0.0.1:{self._server.port}/api/v1/{path}?{urlencode(query)}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def query(self, expression: str) -> list[Any]:
        """The series of an instant query."""
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found
