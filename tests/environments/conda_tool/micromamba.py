"""The part of micromamba's command line that Runyard uses, around rattler: a real solver and a real installer, which
the Python package index has where it has no micromamba. For tests alone; `install_micromamba` makes it a program."""

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path

import rattler


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        print(f"0.0 (rattler {rattler.__version__})")
        return 0
    assert sys.argv[1] == "create", sys.argv
    options = _options(sys.argv[2:])
    if options.prefix.exists():
        print(f"critical libmamba Non-conda folder exists at prefix: {options.prefix}", file=sys.stderr)
        return 1
    try:
        asyncio.run(_create(options))
    except Exception as error:
        print(f"error    libmamba {error}", file=sys.stderr)
        return 1
    return 0


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="micromamba", allow_abbrev=False)
    parser.add_argument("-p", "--prefix", type=Path, required=True)
    parser.add_argument("-y", "--yes", action="store_true", required=True)
    parser.add_argument("-c", "--channel", action="append", default=[])
    parser.add_argument("--override-channels", action="store_true")
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("-f", "--file", type=Path)
    parser.add_argument("specs", nargs="*")
    return parser.parse_intermixed_args(words)


async def _create(options: argparse.Namespace) -> None:
    cache = Path(os.environ.get("CONDA_PKGS_DIRS") or Path.home() / "micromamba/pkgs")
    indexes = rattler.Gateway(cache_dir=cache / "cache")
    records = await (_locked(options, indexes) if options.file else _solved(options, indexes))
    for record in records:
        print(f"  + {record.name.normalized}  {record.version}  {record.build}")
    await rattler.install(records, options.prefix, cache_dir=cache, show_progress=False)


async def _solved(options: argparse.Namespace, indexes: rattler.Gateway) -> list[rattler.RepoDataRecord]:
    if options.offline:
        raise RuntimeError("download error: offline, and this tool keeps no index")
    channels = [_channel(name) for name in options.channel]
    specs = [_named(spec) for spec in options.specs]
    return await rattler.solve(channels, specs, gateway=indexes, platforms=["linux-64", "noarch"])


async def _locked(options: argparse.Namespace, indexes: rattler.Gateway) -> list[rattler.RepoDataRecord]:
    lines = options.file.read_text().splitlines()
    assert lines[0] == "@EXPLICIT", lines[0]
    records = []
    for line in lines[1:]:
        url, _, md5 = line.partition("#")
        found = await _record(url, indexes)
        if found.md5.hex() != md5:
            raise RuntimeError(f"md5 of {url} does not match: expected {md5}, is {found.md5.hex()}")
        records.append(found)
    return records


async def _record(url: str, indexes: rattler.Gateway) -> rattler.RepoDataRecord:
    channel, subdir, file = url.rsplit("/", 2)
    name, version, build = file.removesuffix(".tar.bz2").rsplit("-", 2)
    spec = f"{name} =={version} {build}"
    solved = await rattler.solve([channel], [spec], gateway=indexes, platforms=[subdir, "noarch"])
    return next(record for record in solved if record.name.normalized == name)


def _channel(name: str) -> str:
    if "://" in name:
        return name
    return f"{_custom_channels()[name]}/{name}"


def _named(spec: str) -> str:
    channel, found, package = spec.partition("::")
    return f"{_channel(channel)}::{package}" if found else spec


def _custom_channels() -> dict[str, str]:
    file = os.environ.get("CONDARC")
    return json.loads(Path(file).read_text())["custom_channels"] if file else {}


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # rattler's threads do not survive the interpreter's own way to end
