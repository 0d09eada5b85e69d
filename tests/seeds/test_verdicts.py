from seeds.verdicts import NotYet, Outcome, read_not_yet, summary, table

LISTED = NotYet(3, "distributed training")


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
    assert outcome("NotYet: no", LISTED).verdict == "not yet: distributed training (part 3)"


def test_a_listed_block_that_passes_fails_the_target():
    assert not outcome("", LISTED).is_as_listed


def test_the_list_holds_the_twelve_blocks_of_later_parts():
    listed = read_not_yet()
    assert len(listed) == 12
    assert sorted({entry.part for entry in listed.values()}) == [3, 4, 5]


def test_the_last_line_counts_what_passed():
    outcomes = [outcome(), outcome("no", LISTED), outcome("no")]
    assert summary(outcomes) == "seeds: 1 of 3 blocks pass"
    assert len(table(outcomes).splitlines()) == 4
