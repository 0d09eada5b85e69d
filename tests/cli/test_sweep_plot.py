from typing import Any

from runyard.cli.sweeps.plot import HEIGHT, draw_plot


def progress(*bests: float | None, low: float, high: float) -> dict[str, Any]:
    columns, best = [], None
    for number, value in enumerate(bests):
        best = value if best is None else max(best, value or best)
        columns.append({"first": number, "last": number, "low": value, "high": value, "best": best})
    return {"columns": columns, "range": [low, high]}


def test_dots_are_trials_and_the_line_is_the_best_so_far() -> None:
    lines = draw_plot(progress(0.0, 9.0, 3.0, None, 6.0, low=0.0, high=9.0), width=80, encoding="utf-8")
    assert lines == [
        "9 │ ━━━━",
        "  │",
        "  │",
        "  │    ·",
        "  │",
        "  │",
        "  │  ·",
        "  │",
        "  │",
        "0 │━",
        "   · trials 0 to 4   ━ best so far",
    ]


def test_a_terminal_without_these_characters_gets_plain_ones() -> None:
    lines = draw_plot(progress(0.0, 9.0, 3.0, low=0.0, high=9.0), width=80, encoding="ascii")
    assert lines[0] == "9 | =="
    assert "".join(lines).isascii()
    assert draw_plot(progress(0.0, 9.0, low=0.0, high=9.0), width=80, encoding=None)[0].isascii()


def test_it_is_never_wider_than_the_terminal() -> None:
    many = progress(*(float(n % 7) for n in range(120)), low=0.0, high=6.0)
    assert max(map(len, draw_plot(many, width=40, encoding="utf-8")[:HEIGHT])) <= 40


def test_trials_that_share_a_column_fill_what_they_reach() -> None:
    lines = draw_plot(progress(9.0, 4.0, 0.0, 3.0, 0.0, 0.0, low=0.0, high=9.0), width=6, encoding="utf-8")
    assert [line[3:] for line in lines[:HEIGHT]] == ["━━", *["·"] * 5, "··", "··", "··", "··"]


def test_what_lies_outside_of_the_range_is_drawn_at_its_edge() -> None:
    lines = draw_plot(progress(2.0, -1e300, 9.0, low=0.0, high=9.0), width=80, encoding="utf-8")
    assert lines[HEIGHT - 1] == "0 │ ·"


def test_one_trial_is_no_drawing() -> None:
    assert draw_plot(progress(1.0, low=1.0, high=1.0), width=80, encoding="utf-8") == []
    assert draw_plot({"columns": [], "range": None}, width=80, encoding="utf-8") == []


def test_equal_trials_lie_in_the_middle() -> None:
    lines = draw_plot(progress(1.0, 1.0, low=1.0, high=1.0), width=80, encoding="utf-8")
    assert [line.endswith("━━") for line in lines[:HEIGHT]].count(True) == 1
