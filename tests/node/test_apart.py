"""Nodes that share no disk with the service, and runs that go on from what an earlier attempt had made."""

import hashlib
import os

from runyard.core.records.files import FileEntry
from tests.node.conftest import driver_log
from tests.node.recording_service import RecordingService


def entries_of(service: RecordingService, files: dict[str, bytes]) -> tuple[FileEntry, ...]:
    found = []
    for path, content in files.items():
        sha256 = hashlib.sha256(content).hexdigest()
        service.blobs[sha256] = content
        found.append(FileEntry(path, sha256, len(content)))
    return tuple(found)


def test_code_comes_and_outputs_go_over_the_wire(submit, service):
    big = os.urandom(3 << 20)
    files = {f"package/module_{number}.py": b"X = %d" % number for number in range(200)} | {"big.bin": big}
    script = """
import os, shutil
print(len(os.listdir('package')))
for number in range(50):
    open('outputs/%d.txt' % number, 'w').write(str(number))
shutil.copy('big.bin', 'outputs/big.bin')
"""
    code = entries_of(service, {"train.py": script.encode(), **files})
    submit(script, shares_files=False, code=code)
    assert service.ended()["outcome"] == "completed"
    assert driver_log(service) == "200\n"
    assert service.files["outputs/49.txt"] == b"49"
    assert service.files["outputs/big.bin"] == big
    assert service.adopts == []
    assert len(service.blob_requests) < 20


def test_a_run_goes_on_from_the_outputs_of_its_earlier_attempt(submit, service):
    service.run_files = {"outputs/model/checkpoint": b"epoch 3", "azureml-logs/70_driver_log.txt": b"old"}
    submit("print(open('outputs/model/checkpoint').read())", restores_outputs=True, attempt_id="run1.2")
    assert service.ended()["outcome"] == "completed"
    assert driver_log(service) == "epoch 3\n"


def test_the_end_of_a_preparation_is_told_after_its_log(submit, service):
    submit("pass", kind="prepare")
    service.wait_for(lambda: service.report("prepared"))
    assert [report["state"] for report in service.reports][-1] == "prepared"
