"""How fast the cloud in memory is."""

from __future__ import annotations

import msgspec


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that things take; all of them none, unless told otherwise."""

    launch: float = 0.0
    """From the request for a machine to the answer."""

    call: float = 0.0
    """From any other request to its answer."""

    shutdown: float = 0.0
    """From the beginning of a machine's end until it is gone."""

    jitter: float = 0.0
    """By what share each of these may be shorter or longer, by chance."""

    notice: float = 120.0
    """From the news of an interruption until the machine is taken away."""

    told_again: float = 20.0
    """From telling news that nobody acknowledges until they are told again."""

    sold_out_for: float = 180.0
    """How long the provider does not try again what was sold out."""
