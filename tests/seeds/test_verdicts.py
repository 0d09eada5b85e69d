from seeds.pages import read_page
from seeds.verdicts import NotYet, Outcome, Result, judge, read_not_yet, summary, table

LISTED = NotYet(4, "deployment")


def outcome(problem="", not_yet=None):
    return Outcome("000", 1, 2.5, problem, not_yet)


def test_a_block_that_passes_is_as_it_should_be():
    assert outcome().is_as_listed
    assert outcome().verdict == "pass"


def test_a_block_that_fails_off_the_list_fails_the_target():
    assert not outcome("ValueError: no").is_as_listed
    assert "ValueError: no" in outcome("ValueError: no").verdict


def test_a_listed_block_that_fails_is_not_yet():
    assert outcome("NotYet: no", LISTED).is_as_listed
    assert outcome("NotYet: no", LISTED).verdict == "not yet: deployment (part 4)"


def test_a_listed_block_that_passes_fails_the_target():
    assert not outcome("", LISTED).is_as_listed


def test_every_block_is_expected_to_pass():
    assert read_not_yet() == {}


def test_a_list_names_blocks_by_page(tmp_path):
    listed = tmp_path / "not_yet.toml"
    listed.write_text('[[part]]\npart = 4\nwhat = "deployment"\nblocks = { "003" = [3, 4] }\n', encoding="utf-8")
    assert read_not_yet(listed) == {("003", 3): LISTED, ("003", 4): LISTED}


def test_the_last_line_counts_what_passed():
    outcomes = [outcome(), outcome("no", LISTED), outcome("no")]
    assert summary(outcomes) == "seeds: 1 of 3 blocks pass"
    assert len(table(outcomes).splitlines()) == 4


PAGE = read_page("900", "```\nest = Estimator('.')\n```\n```\nexp.submit(est)\n```\n```\nx = 1\n```\n")


def test_a_block_without_a_result_has_failed():
    outcomes = judge(PAGE, [Result(1, "", 0.1), Result(2, "", 0.1)], "The process ended.")
    assert [outcome.problem for outcome in outcomes] == ["", "", "The process ended."]


def test_a_block_fails_with_the_run_of_the_estimator_that_it_makes():
    outcomes = judge(PAGE, [Result(1, "", 0.1), Result(2, "NotYet: no MPI", 0.1), Result(3, "", 0.1)], "")
    assert [outcome.passed for outcome in outcomes] == [False, False, True]
    assert "see block 2" in outcomes[0].problem
