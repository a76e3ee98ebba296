"""Truth values as Go's flags and environment variables spell them: ``true``, ``T``, ``1`` and so on."""

from typing import Final

# What Go's strconv.ParseBool takes, and nothing else: https://pkg.go.dev/strconv#ParseBool
_ON: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_OFF: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def parse_switch(text: str) -> bool:
    """
    Return the truth value that a text stands for.

    The spellings are those of https://pkg.go.dev/strconv#ParseBool

    Raises:
        ValueError: it stands for none.
    """
    if text in _ON or text in _OFF:
        return text in _ON
    raise ValueError(f"{text!r} is not true or false")
