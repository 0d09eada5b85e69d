import io
import tarfile
import tempfile

import pytest

from runyard.environments.containers.failures import EngineRefused
from runyard.environments.containers.transport import END_MARK, TRIES, retry_broken_pipe, tar_writer

BROKEN = EngineRefused("PUT /archive", 500, "passing bulk input to subprocess: write |1: broken pipe")


@pytest.mark.parametrize("content", [b"words", b"", bytes(3 * tarfile.BLOCKSIZE)])
def test_a_tar_ends_at_its_end_mark(content: bytes) -> None:
    with tempfile.SpooledTemporaryFile() as archive:
        with tar_writer(archive) as tar:
            entry = tarfile.TarInfo("file")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        written = archive.read()
    blocks = -(-len(content) // tarfile.BLOCKSIZE)
    assert len(written) == (1 + blocks) * tarfile.BLOCKSIZE + END_MARK
    with tarfile.open(fileobj=io.BytesIO(written)) as tar:
        member = tar.extractfile("file")
        assert member is not None
        assert member.read() == content


@pytest.mark.parametrize(("failures", "arrives"), [(0, True), (TRIES - 1, True), (TRIES, False)])
def test_a_broken_put_is_tried_again_from_the_beginning(failures: int, arrives: bool) -> None:
    archive, received = io.BytesIO(b"whole"), []

    def send() -> None:
        received.append(archive.read())
        if len(received) <= failures:
            raise BROKEN

    if arrives:
        retry_broken_pipe(archive, send)
    else:
        with pytest.raises(EngineRefused):
            retry_broken_pipe(archive, send)
    assert received == [b"whole"] * min(failures + 1, TRIES)


def test_another_refusal_is_not_tried_again() -> None:
    tries = []

    def send() -> None:
        tries.append(1)
        raise EngineRefused("PUT /archive", 404, "no such container")

    with pytest.raises(EngineRefused):
        retry_broken_pipe(io.BytesIO(), send)
    assert tries == [1]
