"""
The CEL library, loaded when the first expression is.

Importing it brings its own command line along, with an event loop and a terminal; whoever only
reads objects, or decides, has no use for these.
"""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def engine() -> Any:
    """Return the library."""
    return import_module("cel")
