"""The strategies of built-in kinds, by the table in which their objects are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.defaults.registry import DEFAULTS
from karpenter_local.apiserver.resources import BUILT_IN as RESOURCES
from karpenter_local.apiserver.strategies.definitions import DefinitionStrategy
from karpenter_local.apiserver.strategies.deployments import DaemonSetStrategy, DeploymentStrategy
from karpenter_local.apiserver.strategies.jobs import JobStrategy
from karpenter_local.apiserver.strategies.namespaces import NamespaceStrategy
from karpenter_local.apiserver.strategies.nodes import NodeStrategy
from karpenter_local.apiserver.strategies.pods import PodStrategy
from karpenter_local.apiserver.strategies.services import ServiceStrategy
from karpenter_local.apiserver.strategies.storage import ClaimStrategy, VolumeStrategy
from karpenter_local.apiserver.strategies.traits import with_traits
from karpenter_local.apiserver.strategy import Strategy
from karpenter_local.apiserver.validation.registry import RULES

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
