"""A thousand files of an S3 server written to a folder: `runyard data download` beside rclone and boto3."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.servers.s3_server import BUCKET, S3Server

from bench.home import open_home
from bench.measuring import Bar, Measurement, Subject, interleaved, median, seconds_of, spread_of
from bench.peers.process import PeerFailed, peer_python

COUNT, SIZE, REPEATS, THREADS = 1000, 10_000, 5, 16
KEY, SECRET = "a-key", "a-secret"
BY_BOTO3 = """
import concurrent.futures, os, sys, boto3, botocore.config
endpoint, bucket, target, threads = sys.argv[1:]
os.makedirs(target)
client = boto3.client("s3", endpoint_url=endpoint, config=botocore.config.Config(max_pool_connections=int(threads)))
pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
keys = [found["Key"] for page in pages for found in page["Contents"]]
with concurrent.futures.ThreadPoolExecutor(int(threads)) as pool:
    list(pool.map(lambda key: client.download_file(bucket, key, os.path.join(target, key)), keys))
"""
BAR = Bar("at least 0.95 x the quicker of rclone and boto3", lambda rate, floor: rate >= 0.95 * floor)


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder, open_home() as home:
        place = Path(folder, "server")
        place.mkdir()
        server = S3Server(place, checks_signatures=False)
        server.start()
        try:
            yield from _measure(Path(folder), home.workspace, server.endpoint)
        finally:
            server.kill()


def _measure(root: Path, workspace: object, endpoint: str) -> Iterator[Measurement]:
    from azureml.core import Dataset, Datastore

    _fill(endpoint)
    store = Datastore.register_s3_bucket(
        workspace, "bench", BUCKET, endpoint=endpoint, access_key_id=KEY, secret_access_key=SECRET
    )
    Dataset.File.from_files((store, "**")).register(workspace, "thousand")
    subjects: dict[str, Subject] = {"ours": _into(root / "ours", _ours)}
    reasons = {}
    if shutil.which("rclone"):
        subjects["rclone"] = _into(root / "rclone", lambda target: _rclone(endpoint, target))
    else:
        reasons["rclone"] = "not installed; Debian has it as rclone"
    try:
        python = peer_python("boto3")
        subjects["boto3"] = _into(root / "boto3", lambda target: _boto3(python, endpoint, target))
    except PeerFailed as failed:
        reasons["boto3"] = str(failed)
    taken = interleaved(subjects, REPEATS)
    rates = {name: COUNT / median(seconds) for name, seconds in taken.items()}
    ours = rates.pop("ours")
    yield Measurement(
        "download of 1,000 files from S3",
        ours,
        "files/s",
        BAR,
        max(rates.values()),
        spread_of(taken["ours"]),
        rates,
        reasons,
    )


def _fill(endpoint: str) -> None:
    import obstore
    from obstore.store import S3Store

    options = {"endpoint": endpoint, "region": "us-east-1", "access_key_id": KEY, "secret_access_key": SECRET}
    store = S3Store(BUCKET, config=options, client_options={"allow_http": True})
    for number in range(COUNT):
        obstore.put(store, f"{number}.bin", os.urandom(SIZE))


def _into(target: Path, fetch: Callable[[Path], object]) -> Subject:
    measured = seconds_of(lambda: fetch(target))

    def subject() -> float:
        shutil.rmtree(target, ignore_errors=True)
        shutil.rmtree(Path(os.environ["RUNYARD_HOME"], "data-cache"), ignore_errors=True)
        seconds = measured()
        assert sum(file.stat().st_size for file in target.rglob("*.bin")) == COUNT * SIZE
        return seconds

    return subject


def _ours(target: Path) -> None:
    runyard = Path(sys.executable).with_name("runyard")
    command = [runyard, "data", "download", "thousand", "--workspace", "bench", "--target", target]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _rclone(endpoint: str, target: Path) -> None:
    keys = f"access_key_id={KEY},secret_access_key={SECRET}"
    remote = f":s3,provider=Other,endpoint='{endpoint}',{keys},force_path_style=true:{BUCKET}"
    command = ["rclone", "copy", "--config", os.devnull, "--transfers", str(THREADS), "--checkers", str(THREADS)]
    # It cannot take a bundle of certificates from the environment together with its own transport.
    variables = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}
    subprocess.run([*command, remote, str(target)], check=True, env=variables)


def _boto3(python: str, endpoint: str, target: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
    command = [python, "-c", BY_BOTO3, endpoint, BUCKET, str(target), str(THREADS)]
    subprocess.run(command, check=True, env={**os.environ, **keys})
