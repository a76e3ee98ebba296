from datetime import UTC, datetime

import pytest

from karpenter_local.apiserver.tables.columns import ago, human, labels, selector

NOW = datetime(2025, 1, 1, 12, tzinfo=UTC)
DAY = 86400


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3600, "2d1h"),
        (8 * DAY, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (731 * DAY, "2y1d"),
        (8 * 365 * DAY, "8y"),
    ],
)
def test_durations(seconds: int, expected: str) -> None:
    """Two units at most, the finer one only while it matters."""
    assert human(seconds) == expected


def test_ages() -> None:
    """A moment that is not known has no age."""
    assert (ago("2025-01-01T11:00:00Z", NOW), ago(None, NOW)) == ("60m", "<unknown>")


def test_selectors_on_one_line() -> None:
    """As kubectl prints them, in order."""
    given = {
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]},
            {"key": "c", "operator": "DoesNotExist"},
        ],
    }

    assert selector(given) == "!c,a in (x,y),b=1"
    assert (selector(None), selector({}), labels({"b": "2", "a": "1"}), labels(None)) == (
        "<none>",
        "<none>",
        "a=1,b=2",
        "<none>",
    )
