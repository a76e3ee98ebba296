"""How far a claim has come: its conditions, what to do before they are written down, and what after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from karpenter.core.effects import Effect
from karpenter.core.lifecycle.conditions import Board


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a claim's life."""

    board: Board
    status: Mapping[str, Any] = {}
    first: tuple[Effect, ...] = ()
    """To be done before the conditions say so."""

    then: tuple[Effect, ...] = ()
    """To be done once, after the conditions have said so."""
