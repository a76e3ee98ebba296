"""
The command line ``karpenter``: one module per command, thin layers over the library.

:data:`main` is the entry. The table of commands is in :mod:`.group`; a command is imported when it is
called, so that help and completion are fast. Commands share :mod:`.output` (data on standard output as
table, JSON or YAML), :mod:`.errors` (one line on standard error, and the exit code) and :mod:`.files`
(``-f`` and ``--set``).
"""

from karpenter.cli.group import main

__all__ = ["main"]
