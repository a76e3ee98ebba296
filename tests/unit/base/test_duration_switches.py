"""How a setting says true or false."""

import pytest

from karpenter.base.duration import parse_switch


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("t", True), ("TRUE", True), ("True", True), ("0", False), ("F", False), ("false", False)],
)
def test_the_spellings_of_go_are_read(text: str, value: bool) -> None:
    """What strconv.ParseBool reads is read."""
    assert parse_switch(text) is value


@pytest.mark.parametrize("text", ["", "yes", "tRUE", "2"])
def test_other_spellings_are_refused(text: str) -> None:
    """The refusal repeats what was written."""
    with pytest.raises(ValueError, match=f"'{text}' is not true or false"):
        parse_switch(text)
