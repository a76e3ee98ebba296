"""
The command line: faces of the library, and no logic of their own.

``karpenter`` starts at :data:`main`. Commands are listed in :mod:`.commands` and loaded when they are
called, so that help and completion answer at once. Each command is a module of its own; what they
share is in :mod:`.output` (data on standard output, in three forms), :mod:`.errors` (one line on standard
error, and the exit code) and :mod:`.files` (what ``-f`` means).
"""

from karpenter.cli.group import main

__all__ = ["main"]
