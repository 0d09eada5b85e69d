"""Runs one page top to bottom in this process: `python -m seeds.page_process PAGE SEEDS_FOLDER RESULTS_FILE`.

The working folder is the page's. One JSON line a block goes to the results file; the page's own output stays on stdout.
"""

import json
import os
import shutil
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from seeds.errata import Namespace, aliases, read_errata
from seeds.expectations import Unmet, read_expectations
from seeds.pages import Block, Page, built_estimators, read_pages

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = Path(__file__).with_name("files")


class PageRun:
    """One page under way: its names, and the runs it has submitted so far."""

    def __init__(self, page: Page) -> None:
        self._errata = read_errata(page.name)
        self._names = Namespace(self._errata, prerequisites=_Prerequisites())
        self._estimators = built_estimators(page, aliases(self._errata))
        self._expectations = read_expectations(page.name)
        self._seen: list[str] = []
        self._last_runs: list[Any] = []

    def run(self, block: Block) -> None:
        """Run one block and whatever belongs to it; any exception is the block's failure."""
        if not block.runs_inside_a_script:
            try:
                self._execute(block)
            finally:
                self._last_runs = self._new_runs()
        for run in self._last_runs:
            run.wait_for_completion(raise_on_error=False)
            if run.get_status() != "Completed":
                raise Unmet(f"Run {run.id} ended as {run.get_status()}: {run.get_details().get('error')}")
        for expectation in self._expectations.get(block.number, []):
            expectation.check(self._last_runs, Path.cwd())

    def _execute(self, block: Block) -> None:
        exec(compile(block.code, f"<block {block.number}, line {block.line}>", "exec"), self._names, self._names)
        for estimator in self._estimators:
            if estimator.block == block.number and estimator.submitted_in is None:
                self._submit(self._names[estimator.name])

    def _submit(self, estimator: Any) -> None:
        from azureml.core import Experiment

        Experiment(self._workspace(), "never-submitted").submit(estimator)

    def _new_runs(self) -> list[Any]:
        workspace = self._workspace()
        experiments = workspace.experiments.values() if workspace else []
        new = [run for experiment in experiments for run in experiment.get_runs() if run.id not in self._seen]
        self._seen += [run.id for run in new]
        return new

    def _workspace(self) -> Any:
        """The page's workspace, or None before it has one.

        Opened by the page and never by us: v1 code leans on modules that opening a workspace loads.
        """
        from azureml.core import Run, Workspace

        for value in self._names.values():
            if isinstance(value, Workspace):
                return value
            if isinstance(value, Run):
                return value.experiment.workspace
        return None


class _Prerequisites:
    """The module `seeds.prerequisites`, imported when an erratum first needs it."""

    def __getattr__(self, name: str) -> Any:
        from seeds import prerequisites

        return getattr(prerequisites, name)


def lay_out(page: Page, folder: Path) -> None:
    """Put the files that the pages expect, and the workspace's config.json, into the page's folder."""
    for source in ("tf1_mnist/utils.py", "chainer_mnist/chainer_mnist.py"):
        shutil.copy(EXAMPLES / source, folder)
    shutil.copytree(FILES, folder, dirs_exist_ok=True)
    for name in ("tf_mnist.py", "utils.py", "mounted_data.py"):
        shutil.copy(folder / name, folder / "tf-mnist")
    shutil.copy(EXAMPLES / "tf1_mnist" / "tf_mnist.py", folder / "tf-mnist" / "train_mnist.py")
    shutil.copy(folder / "mounted_data.py", folder / "my-sklearn-proj")
    (folder / "my-cntk-proj" / "root_of_machine.txt").write_text(str(tuple(os.stat("/"))[1:3]), encoding="utf-8")
    for block in page.blocks:
        if block.runs_inside_a_script:
            (folder / "tf-mnist" / "page_block.txt").write_text(block.code, encoding="utf-8")
    config = {
        "subscription_id": "00000000-0000-0000-0000-000000000000",
        "resource_group": "seeds",
        "workspace_name": f"seeds-{page.name}",
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def main(page_name: str, seeds_folder: str, results_file: str) -> None:
    page = next(page for page in read_pages(Path(seeds_folder)) if page.name == page_name)
    lay_out(page, Path.cwd())
    page_run = PageRun(page)
    with open(results_file, "a", encoding="utf-8") as results:
        for block in page.blocks:
            print(f"\n##### page {page.name}, block {block.number}", flush=True)
            started, problem = time.monotonic(), ""
            try:
                page_run.run(block)
            except Exception as error:
                traceback.print_exc()
                problem = f"{type(error).__name__}: {error}"
            result = {"block": block.number, "problem": problem, "seconds": time.monotonic() - started}
            results.write(json.dumps(result) + "\n")
            results.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
