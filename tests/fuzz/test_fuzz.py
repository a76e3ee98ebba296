"""A few texts for every target, the same each time; ``make fuzz SECONDS=600`` looks for new ones."""

import pytest
from hypothesis import given, settings

from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_text_is_used_or_refused(name: str) -> None:
    """A reader returns, or refuses with its own error; there is no other exception."""
    texts, target = TARGETS[name]
    # A command takes fifty times as long as a reader.
    settings(max_examples=8 if name.startswith("karpenter ") else 40)(given(texts)(target))()
