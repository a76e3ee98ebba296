from __future__ import annotations

import pytest
from rich.text import Text

from karpenter.top.table import (
    DEFAULT_STYLE,
    FittedColumn,
    TableData,
    UsageBar,
    fit,
    fitted,
    gradient,
    share_style,
)
from tests.unit.top.clusters import printed

COLUMNS = (
    FittedColumn(title="name"),
    FittedColumn(title="used", least=9),
    FittedColumn(title="zone", drop=2),
    FittedColumn(title="pool", drop=1),
    FittedColumn(title="why", least=10),
)
ROW = ("node-1", UsageBar(0.5), "us-east-1a", "default", "one two three four five")


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        pytest.param(200, [6, 40, 10, 7, 23], id="everything fits"),
        pytest.param(80, [6, 26, 10, 7, 23], id="the widest shrinks first"),
        pytest.param(54, [6, 11, 10, 7, 12], id="then whatever may"),
        pytest.param(45, [6, 13, 0, 7, 13], id="the least important goes"),
        pytest.param(35, [6, 12, 0, 0, 13], id="and the next"),
        pytest.param(10, [6, 9, 0, 0, 10], id="the rest stays"),
    ],
)
def test_columns_shrink_and_then_go(width: int, expected: list[int]) -> None:
    """Columns shrink as far as they may, then those with the highest number are left out."""
    assert fit(COLUMNS, [ROW], width) == expected


def test_empty_columns_are_left_out() -> None:
    """A column without text in any row takes no room, and a dash is no text."""
    columns = (FittedColumn(title="a"), FittedColumn(title="b"), FittedColumn(title="c"))
    assert fit(columns, [("x", "", "-"), ("y", "", "-")], 80) == [1, 0, 0]
    assert fit(columns, [("x", "", "-"), ("y", "", "z")], 80) == [1, 0, 1]


def test_folding_keeps_words_whole() -> None:
    """A column that folds is not narrower than its longest word; other columns go before that."""
    columns = (FittedColumn(title="a", drop=1), FittedColumn(title="why", least=5))
    assert fit(columns, [("x" * 20, "karpenter.sh/do-not-disrupt is true")], 40) == [0, 35]


@pytest.mark.parametrize("width", [54, 80, 200])
def test_lines_are_no_longer_than_the_screen(width: int) -> None:
    """What is printed is as wide as was counted."""
    for title in ("", "Machines"):
        lines = printed(fitted(COLUMNS, [ROW], width, title=title), width)
        assert max(map(len, lines)) <= width
        assert any("us-east-1a" in line and "node-1" in line for line in lines)


def test_text_that_does_not_fit_is_below_its_row() -> None:
    """A long name takes a line of its own: no name is broken, and no figure is cut for it."""
    name = "payments-settlement-reconciliation-worker-of-the-shop"
    columns = (FittedColumn(title="type"), FittedColumn(title="$/hour"), FittedColumn(title="for", least=16))
    rows = [("m5a.xlarge", "$0.0766", f"{name} x 3"), ("m5.large", "$0.0400", "web")]
    assert printed(fitted(columns, rows, 66, title="Machines"), 66) == [
        "Machines",
        "",
        " type        $/hour",
        " ───────────────────",
        " m5a.xlarge  $0.0766",
        f"    {name} x 3",
        " m5.large    $0.0400",
        "    web",
        "",
    ]
    wide = printed(fitted(columns, rows, 100, title="Machines"), 100)
    assert any("m5a.xlarge" in line and name in line for line in wide)


def test_a_column_may_cut() -> None:
    """A column that cuts ends in an ellipsis, on one line."""
    columns = (FittedColumn(title="pod", least=5, cut=True),)
    assert printed(fitted(columns, [("a-long-name",)], 6), 6) == ["pod", "a-lon…"]


def test_pages_have_as_many_rows_as_fit() -> None:
    """Rows that fold take as many lines as they have; a row that is too long has a page of its own."""
    data = TableData(
        (FittedColumn(title="why", least=10),), (("one two",), ("a " * 20,), ("three",), ("four",))
    )
    assert [len(page.rows) for page in data.pages(10, 3)] == [1, 1, 2]
    assert [len(page.rows) for page in data.pages(80, 3)] == [3, 1]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.0, "░░░░░   0%"),
        (0.5, "██░░░  50%"),
        (1.0, "█████ 100%"),
        (1.7, "█████ 170%"),
    ],
)
def test_bars(share: float, expected: str) -> None:
    """A bar is as wide as it is told, its figure included."""
    assert UsageBar(share).draw(10).plain == expected


def test_a_bar_without_a_figure() -> None:
    """The bars of the summary are bars alone."""
    assert UsageBar(0.25, percent=False).draw(8).plain == "██░░░░░░"


@pytest.mark.parametrize(("share", "place"), [(0.91, 0), (0.9, 1), (0.61, 1), (0.6, 2), (0.0, 2)], ids=str)
def test_colours_of_shares(share: float, place: int) -> None:
    """More than 90 % is good, more than 60 % is ok."""
    assert share_style(share) == DEFAULT_STYLE[place]


def test_a_gradient_goes_from_one_colour_to_another() -> None:
    """Its ends are the two colours, and its middle is between them."""
    first, middle, last = gradient("#ff0000", "#04b575", 3)
    assert first.color is not None
    assert first.color.triplet is not None
    assert [each.color.triplet.hex for each in (first, last) if each.color and each.color.triplet] == [
        "#ff0000",
        "#04b575",
    ]
    assert middle.color not in {first.color, last.color}


def test_black_has_no_hue() -> None:
    """A gradient may begin at black."""
    first, *_ = gradient("#000000", "#ffffff", 2)
    assert first.color is not None
    assert first.color.triplet is not None
    assert first.color.triplet.hex == "#000000"


def test_text_is_counted_in_cells() -> None:
    """A wide character takes two columns."""
    assert fit((FittedColumn(),), [(Text("日本"),)], 80) == [4]
