"""`python -m seeds [PAGE ...] [--keep] [--shared FOLDER]`: run the seed pages and compare with not_yet.toml."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seeds.container_engine import engine_for
from seeds.mirror import mirrored
from seeds.pages import Page, read_pages
from seeds.verdicts import Outcome, Result, judge, summary, table

REPOSITORY = Path(__file__).resolve().parents[1]
OUTPUT = REPOSITORY / "build" / "seeds"
PAGE_TIMEOUT_S = 900
STOP_TIMEOUT_S = 60


def main(arguments: list[str] | None = None) -> int:
    args = _parse(arguments)
    if not args.shared.is_dir():
        print(
            f"There is no folder {args.shared}, where the seed pages and their data lie. "
            "Put it beside the repository, or give another with --shared.",
            file=sys.stderr,
        )
        return 2
    pages = [page for page in read_pages(args.shared / "seeds") if not args.pages or page.name in args.pages]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="seeds-"))
    try:
        outcomes = run_pages(pages, args.shared, scratch)
    finally:
        if args.keep:
            print(f"Kept: {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    print(f"\n{table(outcomes)}\n\nWhat the pages printed lies in {OUTPUT.relative_to(REPOSITORY)}.")
    print(summary(outcomes))
    return 0 if all(outcome.is_as_listed for outcome in outcomes) else 1


def run_pages(pages: list[Page], shared: Path, scratch: Path) -> list[Outcome]:
    """Run the pages one after another, each in its own workspace, on one home: each environment is built once."""
    home = scratch / "home"
    outcomes = []
    with mirrored(shared, scratch / "certificates") as proxy, engine_for(pages) as engine:
        environment = {**os.environ, **proxy, **engine, "RUNYARD_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
        try:
            for page in pages:
                folder = scratch / "pages" / page.name
                folder.mkdir(parents=True)
                outcomes += run_page(page, shared, folder, OUTPUT / f"{page.name}.txt", environment)
        finally:
            stop = [str(Path(sys.executable).with_name("runyard")), "down"]
            subprocess.run(stop, env=environment, check=False, timeout=STOP_TIMEOUT_S, stdout=subprocess.DEVNULL)
    return outcomes


def run_page(page: Page, shared: Path, folder: Path, output_file: Path, environment: dict[str, str]) -> list[Outcome]:
    """Run one page in a process of its own; a block that it did not get to has failed."""
    results_file = folder.with_suffix(".jsonl")
    command = [sys.executable, "-m", "seeds.page_process", page.name, str(shared / "seeds"), str(results_file)]
    print(f"Page {page.name}: {len(page.blocks)} blocks ...", end=" ", flush=True)
    started = time.monotonic()
    problem = "The page's process ended before this block."
    with output_file.open("wb") as output:
        try:
            subprocess.run(
                command,
                cwd=folder,
                env=environment,
                check=False,
                timeout=PAGE_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        except subprocess.TimeoutExpired:
            problem = f"The page was ended after {PAGE_TIMEOUT_S} s."
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    lines = results_file.read_text(encoding="utf-8").splitlines() if results_file.exists() else []
    return judge(page, [Result(**json.loads(line)) for line in lines], problem)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="seeds", description=__doc__)
    parser.add_argument("pages", nargs="*", help="numbers of pages, such as 002; all when left out")
    parser.add_argument(
        "--shared", type=Path, default=REPOSITORY.parent / "shared", help="folder with seeds/, data/ and tools/"
    )
    parser.add_argument("--keep", action="store_true", help="keep the home and the pages' folders")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
