"""The strategies of built-in kinds, by the table in which their objects are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.local.defaults.registry import DEFAULTS
from karpenter.local.resources import BUILT_IN as RESOURCES
from karpenter.local.strategies.definitions import DefinitionStrategy
from karpenter.local.strategies.deployments import DaemonSetStrategy, DeploymentStrategy
from karpenter.local.strategies.jobs import JobStrategy
from karpenter.local.strategies.namespaces import NamespaceStrategy
from karpenter.local.strategies.nodes import NodeStrategy
from karpenter.local.strategies.pods import PodStrategy
from karpenter.local.strategies.services import ServiceStrategy
from karpenter.local.strategies.storage import ClaimStrategy, VolumeStrategy
from karpenter.local.strategies.traits import with_traits
from karpenter.local.strategy import Strategy
from karpenter.local.validation.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPECIAL: dict[str, type[Strategy]] = {
    "pods": PodStrategy,
    "customresourcedefinitions.apiextensions.k8s.io": DefinitionStrategy,
    "nodes": NodeStrategy,
    "namespaces": NamespaceStrategy,
    "jobs.batch": JobStrategy,
    "daemonsets.apps": DaemonSetStrategy,
    "deployments.apps": DeploymentStrategy,
    "services": ServiceStrategy,
    "persistentvolumeclaims": ClaimStrategy,
    "persistentvolumes": VolumeStrategy,
}


def _strategy(table: str) -> Strategy:
    return with_traits(table, _SPECIAL.get(table, Strategy)(DEFAULTS.get(table), RULES.get(table)))


BUILT_IN: Mapping[str, Strategy] = {resource.table: _strategy(resource.table) for resource in RESOURCES}
