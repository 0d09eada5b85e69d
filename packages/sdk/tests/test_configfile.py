import json
import os
import tempfile
import unittest

from runyard_sdk import configfile
from runyard_sdk.errors import InvalidArgument

KEYS = {"subscription_id": "s", "resource_group": "r", "workspace_name": "w"}


class ConfigFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.realpath(folder.name)
        self.deep = os.path.join(self.root, "a", "b")
        os.makedirs(self.deep)

    def write(self, path, content=json.dumps(KEYS)):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as sink:
            sink.write(content)
        return full

    def test_a_better_name_higher_up_wins_over_a_worse_one_nearby(self):
        self.write("a/b/config.json")
        best = self.write(".azureml/config.json")
        self.assertEqual(configfile.find(self.deep), best)

    def test_the_nearest_of_the_same_name_wins(self):
        self.write("config.json")
        near = self.write("a/config.json")
        self.assertEqual(configfile.find(self.deep), near)

    def test_scope_wins_over_the_keys(self):
        scope = "/subscriptions/S/resourceGroups/R/providers/Microsoft.MachineLearningServices/workspaces/W"
        path = self.write("config.json", json.dumps(dict(KEYS, Id=None, Scope=scope)))
        self.assertEqual(configfile.read(path), ("S", "R", "W"))

    def test_what_is_missing_is_named(self):
        with self.assertRaisesRegex(InvalidArgument, "lacks resource_group, workspace_name"):
            configfile.read(self.write("config.json", '{"subscription_id": "s"}'))

    def test_broken_json_is_told_as_such(self):
        with self.assertRaisesRegex(InvalidArgument, "not valid JSON"):
            configfile.read(self.write("config.json", "{"))

    def test_something_other_than_an_object_is_refused(self):
        with self.assertRaisesRegex(InvalidArgument, "does not hold an object"):
            configfile.read(self.write("config.json", "[1]"))

    def test_what_was_written_is_found_and_read_again(self):
        path = configfile.write(self.root, None, "s", "r", "w")
        self.assertEqual(path, os.path.join(self.root, ".azureml", "config.json"))
        self.assertEqual(configfile.read(configfile.find(self.deep)), ("s", "r", "w"))

    def test_aml_config_is_used_where_it_exists(self):
        os.mkdir(os.path.join(self.root, "aml_config"))
        path = configfile.write(self.root, "other.json", "s", "r", "w")
        self.assertEqual(path, os.path.join(self.root, "aml_config", "other.json"))


if __name__ == "__main__":
    unittest.main()
