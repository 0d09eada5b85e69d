import importlib.util

import pytest
from seeds.expectations import read_expectations
from seeds.page_process import FILES

TABLE = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 21 0:40 / {run}/mounts/mnist ro - ext4 /dev/vda rw
41 40 0:41 / {run}/mounts/mnist ro,nosuid - fuse.runyard mnist ro
"""


@pytest.fixture
def mount_of():
    """The function as a run of a page has it: from a file beside its script."""
    spec = importlib.util.spec_from_file_location("mounted_data", FILES / "mounted_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.mount_of


def test_a_file_lies_on_the_innermost_and_last_mount_above_it(mount_of, tmp_path):
    table = tmp_path / "mountinfo"
    table.write_text(TABLE.format(run=tmp_path.resolve()))
    mount_point = tmp_path / "mounts" / "mnist"
    assert mount_of(mount_point / "deep" / "file.gz", table) == (str(mount_point.resolve()), "fuse.runyard")
    assert mount_of(tmp_path / "mounts" / "mnist-2", table) == ("/", "ext4")


def test_the_kernel_is_asked(mount_of):
    assert mount_of("/proc/self/status") == ("/proc", "proc")


@pytest.mark.parametrize(
    ("page", "block", "metric"),
    [("000", 8, "data_on_fuse"), ("001", 9, "data_in_place"), ("003", 2, "data_in_place"), ("004", 8, "data_on_fuse")],
)
def test_pages_that_mount_data_fail_when_it_was_downloaded(page, block, metric):
    wanted = {expectation.metric: expectation.at_least for expectation in read_expectations(page)[block]}
    assert wanted[metric] == 1
