import unittest
from unittest import mock

from azureml._restclient import snapshots_client
from azureml.core import _submission
from runyard_sdk import snapshot


class SnapshotLimitTest(unittest.TestCase):
    def limit_at(self, value):
        with mock.patch.object(snapshots_client, "SNAPSHOT_MAX_SIZE_BYTES", value):
            return _submission._snapshot_limit()

    def test_untouched_it_is_ours(self):
        self.assertEqual(_submission._snapshot_limit(), snapshot.REFUSE_BYTES)

    def test_what_the_user_sets_counts_higher_or_lower(self):
        for chosen in (1000, 20 * 1024 ** 3):
            self.assertEqual(self.limit_at(chosen), chosen)


if __name__ == "__main__":
    unittest.main()
