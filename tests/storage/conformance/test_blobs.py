from pathlib import Path

import pytest

from runyard.storage.blobs.logs import FileLogStore
from runyard.storage.blobs.store import FileBlobStore
from runyard.testing.blob_store_suite import BlobStoreSuite
from runyard.testing.log_store_suite import LogStoreSuite


class TestFileBlobStore(BlobStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FileBlobStore:
        return FileBlobStore(tmp_path / "blobs")


class TestFileLogStore(LogStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FileLogStore:
        return FileLogStore(tmp_path / "logs")
