import json
import os

from seeds.__main__ import REPOSITORY, run_page
from seeds.pages import read_pages

PAGE = """\
```python
count = 1
```
```python
assert count == 2, "count is one"
```
```python
import os
open("seen", "w").write(os.getcwd())
```
"""


def run(page_text, tmp_path):
    folder, seeds = tmp_path / "work", tmp_path / "shared" / "seeds"
    folder.mkdir()
    seeds.mkdir(parents=True)
    (seeds / "900_page.txt").write_text(page_text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "RUNYARD_HOME": str(tmp_path / "home")}
    return folder, run_page(read_pages(seeds)[0], tmp_path / "shared", folder, tmp_path / "printed.txt", environment)


def test_blocks_share_their_names_and_a_failure_does_not_stop_the_page(tmp_path):
    folder, outcomes = run(PAGE, tmp_path)
    assert [outcome.problem for outcome in outcomes] == ["", "AssertionError: count is one", ""]
    assert (folder / "seen").read_text() == str(folder)


def test_the_page_finds_its_own_workspace_and_the_scripts_it_names(tmp_path):
    folder, _ = run(PAGE, tmp_path)
    assert json.loads((folder / "config.json").read_text())["workspace_name"] == "seeds-900"
    for name in (
        "tf_mnist.py",
        "chainer_mnist.py",
        "tf-mnist/utils.py",
        "my-sklearn-proj/train.py",
        "my-cntk-proj/root_of_machine.txt",
    ):
        assert (folder / name).is_file(), name


def test_blocks_after_the_death_of_the_process_have_failed(tmp_path):
    _, outcomes = run("```python\nimport os\nos._exit(3)\n```\n```python\nx = 1\n```\n", tmp_path)
    assert [outcome.passed for outcome in outcomes] == [False, False]
