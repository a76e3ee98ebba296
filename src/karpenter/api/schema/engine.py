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
    """Return the library, which is told not to log what it raises as an error anyway."""
    logging = import_module("logging")
    logging.getLogger("cel").setLevel(logging.CRITICAL)
    return import_module("cel")
