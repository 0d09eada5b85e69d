import pytest
from seeds.pages import built_estimators, read_page, read_pages

PAGE = """\
Words.

```Python
first = 1
```

    ```python
    if first:
        second = 2
    ```

```
third = 3
```

```JSON
{"fourth": 4}
```
"""


def test_blocks_are_read_in_order_whatever_their_tag_is():
    assert [block.code for block in read_page("000", PAGE).blocks] == [
        "first = 1\n",
        "if first:\n    second = 2\n",
        "third = 3\n",
    ]


def test_a_block_knows_its_place_in_the_page():
    assert [(block.number, block.line) for block in read_page("000", PAGE).blocks] == [(1, 4), (2, 8), (3, 13)]


def test_a_fence_that_is_never_closed_is_refused():
    with pytest.raises(ValueError, match="line 2 is never closed"):
        read_page("000", "```python\nx = 1\n")


def test_a_folder_without_pages_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no seed pages"):
        read_pages(tmp_path)


def test_pages_are_named_by_the_number_of_their_file(tmp_path):
    for name in ("001_b.txt", "000_a.txt"):
        (tmp_path / name).write_text(PAGE, encoding="utf-8")
    assert [page.name for page in read_pages(tmp_path)] == ["000", "001"]


def test_only_a_block_that_imports_a_framework_runs_inside_a_script():
    page = page_of("from azureml.train.dnn import TensorFlow", "import os\nimport tensorflow as tf")
    assert [block.runs_inside_a_script for block in page.blocks] == [False, True]


def page_of(*blocks):
    return read_page("000", "".join(f"```python\n{block}\n```\n" for block in blocks))


def submissions(page, same_as=None):
    return [(estimator.block, estimator.submitted_in) for estimator in built_estimators(page, same_as or {})]


def test_an_estimator_is_followed_to_the_block_that_submits_it():
    assert submissions(page_of("est = TensorFlow()", "run = exp.submit(est)")) == [(1, 2)]


def test_an_estimator_that_no_block_submits_is_found():
    assert submissions(page_of("x = 1", "est = Estimator('.')")) == [(2, None)]


def test_an_estimator_is_lost_when_its_name_is_bound_again():
    assert submissions(page_of("est = TensorFlow(1)", "est = TensorFlow(2)\nexp.submit(est)")) == [(1, None), (2, 2)]


def test_a_submission_under_another_name_counts_when_the_errata_say_so():
    page = page_of("estimator = TensorFlow()", "exp.submit(tf_est)")
    assert submissions(page) == [(1, None)]
    assert submissions(page, {"tf_est": "estimator"}) == [(1, 2)]
