"""Data of runs in containers: bound by the engine where it lies here, served or fetched else."""

import pytest

from runyard.core.records.data import DataForAttempt, DatasetFiles, SourceFile
from tests.images.parts import fixtures
from tests.node.conftest import driver_log
from tests.node.data.conftest import (
    dataset,
    datastore,
    nothing_stays_mounted,
    on_folder,
    one_file,
    output,
    reference,
    whole_folder,
)
from tests.node.data.test_remote_stores import as_dataset, bucket, content_of
from tests.servers.fixtures import s3_access, s3_server

pytestmark = [pytest.mark.images, pytest.mark.servers]
__all__ = ["bucket", "datastore", "nothing_stays_mounted", "s3_access", "s3_server"]
home, service, nodes = fixtures

READS = """
import os, sys
path = sys.argv[1]
for folder, _, names in os.walk(path):
    for name in names:
        print('found', os.path.relpath(os.path.join(folder, name), path), open(os.path.join(folder, name)).read())
try:
    open(path + '/new', 'w').write('x')
except OSError as error:
    print('read-only', error.errno)
print('argument', path == os.environ['mnist'])
"""


def run(nodes, script, *items, **fields):
    nodes.submit(script, items[0].placeholder, data=items, **fields)
    return nodes.ended()


def test_a_local_folder_is_seen_read_only(nodes, service, datastore):
    service.data = on_folder(datastore, mnist=whole_folder(datastore, "mnist"))
    assert run(nodes, READS, dataset())["outcome"] == "completed", driver_log(service)
    said = driver_log(service)
    assert "found train/a.gz first" in said
    assert "found test/b.gz second" in said
    assert "read-only 30" in said
    assert "argument True" in said


def test_chosen_files_of_a_local_store_are_seen(nodes, service, datastore):
    files = [SourceFile("x/a", "blobs", "mnist/train/a.gz", 5), SourceFile("notes", "blobs", "notes.txt", 5)]
    service.data = on_folder(datastore, mnist=DatasetFiles(files, is_one_file=False))
    assert run(nodes, READS, dataset())["outcome"] == "completed", driver_log(service)
    assert "found x/a first" in driver_log(service)
    assert "found notes notes" in driver_log(service)


def test_one_file_is_given_by_its_path(nodes, service, datastore):
    service.data = on_folder(datastore, mnist=one_file(datastore, "notes.txt"))
    assert run(nodes, "import sys; print('read', open(sys.argv[1]).read())", dataset())["outcome"] == "completed"
    assert "read notes" in driver_log(service)


def test_a_path_of_the_users_choice_is_made_in_the_container_alone(nodes, service, datastore):
    service.data = on_folder(datastore, mnist=whole_folder(datastore, "mnist"))
    script = "print('read', open('/only/in/there/train/a.gz').read())"
    assert run(nodes, script, dataset(path_on_compute="/only/in/there"))["outcome"] == "completed", driver_log(service)
    assert "read first" in driver_log(service)


def test_what_is_written_to_a_local_reference_is_on_the_datastore(nodes, service, datastore):
    service.data = on_folder(datastore)
    script = "import sys; open(sys.argv[1] + '/written', 'w').write('here')"
    assert run(nodes, script, reference("mount", "mnist"))["outcome"] == "completed", driver_log(service)
    assert (datastore / "mnist" / "written").read_text() == "here"


def test_data_of_an_object_store_is_served_into_the_container(nodes, service, bucket):
    service.data = DataForAttempt({"mnist": as_dataset(bucket)}, service.data.stores, service.data.network)
    ended = run(nodes, READS, dataset())
    assert ended["outcome"] == "completed", driver_log(service)
    assert "found a.gz first" in driver_log(service)
    assert ended["warnings"] == []


def test_what_is_written_to_a_mounted_output_is_on_its_object_store(nodes, service, bucket):
    script = "import sys; open(sys.argv[1] + '/model', 'w').write('weights')"
    assert run(nodes, script, output("mount"))["outcome"] == "completed", driver_log(service)
    assert content_of(bucket)["out/model"] == b"weights"


def test_uploads_and_downloads_work_as_ever(nodes, service, bucket):
    service.data = DataForAttempt({"mnist": as_dataset(bucket)}, service.data.stores, service.data.network)
    script = "import sys, os; open(os.environ['result'] + '/m', 'w').write(open(sys.argv[1] + '/a.gz').read())"
    assert run(nodes, script, dataset(mode="download"), output("upload"))["outcome"] == "completed"
    assert content_of(bucket)["out/m"] == b"first"
