from runyard.runs.kinds.sweep.early_stopping.histories import IntervalScores


def test_what_is_kept_follows_what_is_added() -> None:
    standings = IntervalScores()
    assert list(standings.at(1, lambda: [0.5, 0.1])) == [0.1, 0.5]
    standings.add(1, 0.3)
    assert list(standings.at(1, lambda: [])) == [0.1, 0.3, 0.5]


def test_no_more_is_kept_than_may_be_and_what_was_asked_for_longest_ago_goes_first() -> None:
    standings = IntervalScores(most_kept=100)
    for interval in range(10_000):
        standings.at(interval, lambda: [1.0])
        standings.at(0, lambda: [1.0])
    assert len(standings) == 3
    assert 0 in standings
    assert 9_999 in standings
    assert 1 not in standings


def test_one_that_grows_makes_others_go_and_stays_itself() -> None:
    standings = IntervalScores(most_kept=100)
    for interval in range(5):
        standings.at(interval, lambda: [1.0])
    for _ in range(200):
        standings.add(4, 0.5)
    assert len(standings) == 1
    assert len(standings.at(4, lambda: [])) == 201


def test_what_has_gone_is_read_again_when_it_is_asked_for() -> None:
    standings = IntervalScores(most_kept=40)
    standings.at(1, lambda: [1.0])
    standings.at(2, lambda: [1.0])
    assert list(standings.at(1, lambda: [2.0, 1.0])) == [1.0, 2.0]
