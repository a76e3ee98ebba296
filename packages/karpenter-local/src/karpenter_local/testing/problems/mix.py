"""What random problems are made of: the words that may occur in them, and how many."""

from __future__ import annotations

from typing import Final

import msgspec
from hypothesis import strategies as st

from karpenter.api import labels

APPS: Final = ("a", "b", "c")
TEAM: Final = "example.com/team"
"""A label that only pools define."""

TEAMS: Final = ("red", "blue")
GPU: Final = "example.com/gpu"
DRIVER: Final = "disk.example.com"
NAMESPACES: Final = ("default", "other")
DOMAIN_KEYS: Final = (labels.ZONE, labels.ZONE, labels.HOSTNAME, labels.HOSTNAME, labels.CAPACITY_TYPE, TEAM)
ZONE_OR_HOST: Final = (labels.ZONE, labels.HOSTNAME)


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """Features that may occur in a problem."""

    pods: int = 6
    """At most so many pods per template."""

    templates: int = 4
    pools: int = 3
    nodes: int = 3
    same_sizes: bool = True
    """Whether different templates may ask for the same cpu and memory."""

    alternatives: bool = True
    spread: bool = True
    affinity: bool = True
    anti_affinity: bool = True
    preferences: bool = True
    other_domains: bool = True
    """Whether spread and affinity may be over any label, not only over zones and nodes."""

    policies: bool = True
    """Whether spreads may say which nodes count, and how many domains there must be."""

    defaults: bool = True
    """Whether pods that state no spread may be given one."""

    bounds: bool = True
    """Whether nodes may be chosen by a number."""

    taints: bool = True
    limits: bool = True
    min_values: bool = True
    reserved: bool = True
    daemons: bool = True
    ports: bool = True
    volumes: bool = True
    namespaces: bool = True
    sold_out: bool = True
    savings: bool = True
    """Whether some pods are only moved, and some nodes are in their quiet time."""


EVERYTHING: Final = Mix()


def seldom(one_in: int) -> st.SearchStrategy[bool]:
    """Return a strategy that says yes once in so many times, and no in the simplest case."""
    return st.integers(1, one_in).map(lambda number: number == one_in)
