"""Deployments and daemon sets: small differences in what counts as a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource

# https://kubernetes.io/docs/reference/labels-annotations-taints/
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DeploymentStrategy(Strategy):
    """Rules for writing deployments."""

    def desired_state(self, value: Object) -> Object:
        """Count annotations, too: rollouts are steered by them."""
        return {"spec": value.get("spec"), "annotations": value["metadata"].get("annotations") or {}}

    def prepare_status(self, resource: APIResource, value: Object, old: Object) -> None:
        super().prepare_status(resource, value, old)
        if "labels" in old["metadata"]:
            value["metadata"]["labels"] = old["metadata"]["labels"]
        else:
            value["metadata"].pop("labels", None)


class DaemonSetStrategy(Strategy):
    """Rules for writing daemon sets."""

    def prepare_create(self, resource: APIResource, value: Object) -> None:
        super().prepare_create(resource, value)
        value["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = "1"

    def prepare_update(self, resource: APIResource, value: Object, old: Object) -> None:
        super().prepare_update(resource, value, old)
        number = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "1"))
        if value["spec"].get("template") != old["spec"].get("template"):
            number += 1
        value["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(number)
