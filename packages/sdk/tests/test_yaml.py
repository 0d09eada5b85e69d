import os
import subprocess
import sys
import tempfile
import unittest

from azureml import _yaml
from azureml._yaml import MAX_CHARACTERS, YamlError, dumps, loads, parser
from azureml._yaml.values import Builder, checked_text
from .conda_texts import TEXTS

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")


def by_our_reader(text):
    builder = Builder()
    parser.read(checked_text(text), builder)
    return builder.value


def by_pyyaml(text):
    import yaml
    builder = Builder()
    _yaml._read_with_library(yaml, checked_text(text), builder)
    return builder.value


def readers():
    try:
        import yaml  # noqa: F401
    except ImportError:
        return [by_our_reader, loads]
    return [by_our_reader, by_pyyaml, loads]


NUMBERED = "".join("%s: &%s [%s]\n" % (name, name, ", ".join(["*" + before] * 9))
                   for before, name in zip("abcdefgh", "bcdefghi"))


class ReadingYaml(unittest.TestCase):
    def assertReads(self, text, value):
        for read in readers():
            self.assertEqual(read(text), value, (read.__name__, text))

    def assertRefuses(self, text, message):
        for read in readers():
            with self.assertRaisesRegex(YamlError, message, msg=(read.__name__, text[:80])):
                read(text)

    def test_a_conda_file_as_users_write_it(self):
        self.assertReads(TEXTS["plain"], {
            "name": "my # env", "channels": ["defaults", "conda-forge"], "prefix": None,
            "dependencies": ["python=3.6.2", "conda-forge::numpy", "scipy", {"pip": [
                "azureml-defaults", "--extra-index-url https://example.org/simple", "tensorflow>=1.13,<1.14",
                "git+https://example.org/x.git#egg=x"]}]})

    def test_windows_line_ends_a_byte_order_mark_and_a_document_start(self):
        self.assertReads("\ufeff---\r\na: 1\r\nb:\r\n  - x\r\n", {"a": 1, "b": ["x"]})

    def test_nothing_at_all_is_none(self):
        self.assertReads("# only a comment\n\n", None)

    def test_scalars_have_their_types(self):
        self.assertReads("[1, -2, 3.5, true, No, null, '1', 1.2.3]", [1, -2, 3.5, True, False, None, "1", "1.2.3"])

    def test_dates_times_and_other_bases_stay_text(self):
        self.assertReads("[2020-01-01, 1:30, 0x1f, 1_000, .inf, =]", ["2020-01-01", "1:30", "0x1f", "1_000", ".inf", "="])

    def test_keys_are_text(self):
        self.assertReads("1: a\nyes: b\n3.10: c\n", {"1": "a", "yes": "b", "3.10": "c"})

    def test_an_alias_is_a_copy_of_what_its_anchor_names(self):
        text = TEXTS["anchors"]
        channels, base = ["conda-forge", "defaults"], ["python=3.8", "numpy=1.19"]
        self.assertReads(text, {
            "name": "shared", "base": base, "channels": channels, "also": base, "other_channels": channels,
            "dependencies": ["numpy=1.19", {"pip": ["a", "b"]}], "env_name": "shared", "only": "defaults"})
        for read in readers():
            value = read(text)
            self.assertIsNot(value["base"], value["also"])

    def test_a_merge_key_gives_what_the_mapping_has_not(self):
        variables = {"LEVEL": "3", "MODE": "fast"}
        self.assertReads(TEXTS["merge keys"], {
            "common": {"image": "base", "variables": variables}, "gpu": {"image": "cuda", "count": 1},
            "one": {"image": "mine", "variables": variables},
            "two": {"image": "cuda", "count": 1, "variables": variables, "name": "two"}, "three": {"a": 1, "b": 2},
            "<<": "text"})

    def test_block_text_keeps_or_folds_its_lines(self):
        self.assertReads(TEXTS["block text"], {
            "name": "b", "kept": "RUN apt-get update \\\n && apt-get install -y gcc\n\n# no comment\nUSER root\n",
            "folded": "one long line of text\nand a second\n  indented: as it is\nend\n", "stripped": "no end",
            "all": "every end\n\n\n", "indented": "  two more\n", "list": ["a b", "c\n"], "last": ""})

    def test_text_and_lists_go_over_several_lines(self):
        self.assertReads(TEXTS["many lines"], {
            "name": "several lines of plain text", "double": "folded here not here,\nand a paragraph",
            "single": "it's folded", "channels": ["defaults", "conda-forge"],
            "variables": {"A": "1", "B": 2, "C": ["x", {"y": "z"}, {"k": "v"}]}})

    def test_what_is_not_read_names_its_line(self):
        for text in ("a: 1\nb: *x", "a: 1\nb: !t 2", "a: 1\n\tb: 2", "a: 1\n---\nb: 2", "a: 1\nb: |x\n", "a: 1\n<<: 2",
                     "a: 1\nb: [1", "a: 1\nb: [x, \"y", "a: 1\nb: 'x", "a: 1\na: 2", "a: 1\n  b: 2", "a: 1\nb",
                     "a: 1\nb: \x07", "a: 1\n[b]: 2", "a: 1\nb: - c", "a: &x 1\n*x : 2", "a: 1\nb: \"\\q\"",
                     "a: 1\nb: &x *y"):
            self.assertRefuses(text, "Line [23] ")

    def test_text_that_grows_without_end_is_refused(self):
        self.assertRefuses("a: &a [" + "x" * 10000 + "]\n" + NUMBERED, "aliases written out")
        self.assertRefuses("a: &a {x: 1}\n" + NUMBERED.replace("[", "{<<: [").replace("]", "]}"), "aliases written out")
        self.assertRefuses("a: &a " + "x" * 100000 + "\nb: [" + "*a, " * 1000 + "]", "aliases written out")
        self.assertRefuses("a: &a [1, *a]", r"Line 1 uses \*a inside of what it stands for")
        self.assertRefuses("a: &a\n  b:\n    <<: *a\n", r"Line 3 uses \*a inside of what it stands for")

    def test_text_that_is_too_deep_is_refused(self):
        links = "".join("a%d: &a%d [*a%d]\n" % (number, number, number - 1) for number in range(1, 200))
        for text in ("[" * 100000, "- " * 100000, "{a: " * 100000, "a: &a0 [x]\n" + links,
                     "".join(" " * depth + "a:\n" for depth in range(1000))):
            self.assertRefuses(text, "nested more than 100 deep")

    def test_text_that_is_too_long_is_refused(self):
        self.assertRefuses("a: " + "x" * (10 * 1000 * 1000), "more than %d characters" % MAX_CHARACTERS)

    def test_a_number_too_large_for_a_number_is_text(self):
        self.assertReads("[%s, 1e999]" % ("9" * 5000), ["9" * 5000, "1e999"])


class ChoosingTheReader(unittest.TestCase):
    def read_in_a_process(self, *modules):
        """What a process without site packages reads, and which reader it used."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in modules:
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            code = ("import sys\nfrom azureml._yaml import loads\nassert 'yaml' not in sys.modules\n"
                    "print(loads('a: &x [1]\\nb: *x'), 'azureml._yaml.parser' in sys.modules)")
            done = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    env={"PYTHONPATH": os.pathsep.join((SOURCE, folder)), "PATH": os.environ["PATH"]})
            return done.communicate()[0].decode("utf-8").strip()

    def test_without_pyyaml_our_own_reads(self):
        self.assertEqual(self.read_in_a_process(), "{'a': [1], 'b': [1]} True")

    def test_another_module_of_that_name_is_left_alone(self):
        self.assertEqual(self.read_in_a_process(("yaml.py", "x = 1\n")), "{'a': [1], 'b': [1]} True")
        self.assertEqual(self.read_in_a_process(("yaml.py", "raise RuntimeError('no')\n")), "{'a': [1], 'b': [1]} True")


class WritingYaml(unittest.TestCase):
    def test_what_is_written_is_read_back(self):
        values = [
            {"a": [], "b": {}, "c": None, "d": [1, 2.5, True], "e": [[1], [{"f": "g", "h": [{"i": 1}]}]]},
            {"text": ["", " x", "x ", "yes", "3.10", "-", "- a", "a: b", "#", "it's", '"', "\n\t\x00", "*", "\u00e4",
                      'x": y', "it's: ' #", "a\u2028b", "\U0001f600", "\x7f\U0001f600", "\x85\ufffe", "a\r"]},
            {"odd key: x": 1, "": 2, "7": 3, "<<": 4, "&a": 5}, [["a"], []], "plain", 5,
        ]
        for value in values:
            for read in readers():
                self.assertEqual(read(dumps(value)), value)

    def test_what_other_readers_take_for_something_else_than_text_is_quoted(self):
        for text in ("on", "Off", "NO", "2020-01-01", "1:30", "0x1f", "1_000", ".inf", "=", "<<"):
            self.assertEqual(dumps([text]), '- "%s"\n' % text)


if __name__ == "__main__":
    unittest.main()
