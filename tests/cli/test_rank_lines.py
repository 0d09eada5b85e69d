import io

from runyard.cli.run_logs import MAX_LINE_CHARACTERS, RankPrefixer


def lines(*pieces, coloured=False):
    stream = io.StringIO()
    printed = RankPrefixer(stream, coloured=coloured)
    for rank, role, text in pieces:
        printed.take(rank, role, text)
    printed.close()
    return stream.getvalue()


def test_lines_of_two_ranks_are_never_mixed_within_a_line():
    pieces = [(0, "worker", "ep"), (1, "worker", "epoch 1\nep"), (0, "worker", "och 1\n"), (1, "worker", "och 2\n")]
    assert lines(*pieces) == "[rank 1] epoch 1\n[rank 0] epoch 1\n[rank 1] epoch 2\n"


def test_a_line_that_never_ended_comes_at_the_end():
    assert lines((1, "worker", "dying"), (0, "worker", "a\n")) == "[rank 0] a\n[rank 1] dying\n"


def test_a_parameter_server_is_told_from_a_worker():
    assert lines((2, "ps", "serving\n")) == "[rank 2 ps] serving\n"


def test_a_line_without_end_is_cut_and_not_kept_for_ever():
    stream = io.StringIO()
    RankPrefixer(stream, coloured=False).take(0, "worker", "x" * (2 * MAX_LINE_CHARACTERS + 1))
    assert stream.getvalue() == f"[rank 0] {'x' * MAX_LINE_CHARACTERS}\n" * 2


def test_ranks_have_colours_of_their_own_in_a_terminal():
    shown = lines((0, "worker", "a\n"), (1, "worker", "b\n"), coloured=True).splitlines()
    assert shown[0].startswith("\x1b[")
    assert shown[0].partition("[rank")[0] != shown[1].partition("[rank")[0]
