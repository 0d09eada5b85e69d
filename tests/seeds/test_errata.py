import json
import tomllib

import pytest
from seeds.errata import FILE, Erratum, Namespace, aliases, read_errata


def erratum(name, module=None, expression=None):
    return {name: Erratum(name, ("000",), "a reason", module, expression)}


def run(code, names):
    exec(code, names, names)


def test_a_name_that_stands_for_another_is_found_even_when_that_one_is_made_in_the_same_block():
    names = Namespace(erratum("tf_est", expression="estimator"))
    run("estimator = 7\nsubmitted = tf_est", names)
    assert names["submitted"] == 7


def test_a_name_can_come_from_a_module():
    names = Namespace(erratum("dumps", module="json"))
    run("text = dumps([1])", names)
    assert names["text"] == json.dumps([1])


def test_what_the_page_defines_wins():
    names = Namespace(erratum("est", expression="1 + 1"))
    run("est = 5\nseen = est", names)
    assert names["seen"] == 5


def test_a_name_without_an_erratum_is_a_name_error():
    with pytest.raises(NameError, match="nowhere"):
        run("nowhere", Namespace({}))


def test_builtins_are_found():
    names = Namespace({})
    run("size = len([1, 2])", names)
    assert names["size"] == 2


def test_only_errata_that_name_a_name_are_aliases():
    errata = erratum("a", expression="b") | erratum("c", expression="d['e']") | erratum("f", module="json")
    assert aliases(errata) == {"a": "b"}


def test_a_page_gets_its_own_errata_only():
    assert "experiment" in read_errata("003")
    assert "experiment" not in read_errata("002")


def test_every_erratum_has_one_line_of_reason_and_one_source():
    for row in tomllib.loads(FILE.read_text(encoding="utf-8"))["name"]:
        assert row["reason"].strip()
        assert "\n" not in row["reason"]
        assert ("from" in row) != ("is" in row), row["name"]
