"""The strategies of built-in kinds, by the table in which their objects are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.local.strategies.namespaces import NamespaceStrategy
from karpenter.local.strategies.nodes import NodeStrategy
from karpenter.local.strategies.pods import PodStrategy
from karpenter.local.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

BUILT_IN: Mapping[str, Strategy] = {
    "pods": PodStrategy(),
    "nodes": NodeStrategy(),
    "namespaces": NamespaceStrategy(),
}
GENERAL = Strategy()
