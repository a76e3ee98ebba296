"""
What a cluster with Karpenter in it says about itself beside nodes and pods: its Deployment, release, alerts.

Objects are plain, as the API server holds them. Reading a live cluster changes nothing; a kind that it does
not serve has no objects, and one that may not be read is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.install.release import OWNED
from karpenter.kube.errors import Forbidden, NotFound
from karpenter.kube.rest import Selection
from karpenter.kube.targets import untyped

if TYPE_CHECKING:
    from karpenter.kube.client import Client

KINDS: Final = (
    (untyped("apps/v1", "deployments", kind="Deployment", namespaced=True), Selection()),
    (
        untyped("monitoring.coreos.com/v1", "prometheusrules", kind="PrometheusRule", namespaced=True),
        Selection(),
    ),
    (untyped("loki.grafana.com/v1", "alertingrules", kind="AlertingRule", namespaced=True), Selection()),
    (untyped("v1", "configmaps", kind="ConfigMap", namespaced=True), Selection(labels="grafana_dashboard")),
    (untyped("v1", "configmaps", kind="ConfigMap", namespaced=True), Selection(labels="loki_rule")),
    (untyped("v1", "secrets", kind="Secret", namespaced=True), Selection(labels=OWNED)),
    (
        untyped("karpenter.k8s.aws/v1", "ec2nodeclasses", kind="EC2NodeClass", namespaced=False),
        Selection(),
    ),
)
"""What is read beside the objects that decisions are made from."""


class ReadObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Plain objects, and which kinds could not be read."""

    objects: tuple[dict[str, Any], ...] = ()
    unread: tuple[str, ...] = ()


async def read_objects(client: Client) -> ReadObjects:
    """
    Return what a live cluster holds of :data:`KINDS`.

    Raises:
        KubeError: the cluster does not answer.
    """
    found: list[dict[str, Any]] = []
    unread: list[str] = []
    for kind, selection in KINDS:
        try:
            page = await client.list(kind, selection)
        except NotFound:
            continue  # the cluster does not serve it, so there is none
        except Forbidden as error:
            unread.append(f"{kind.kind} is left out: {error}")
            continue
        found += [{"apiVersion": kind.api_version, "kind": kind.kind, **each} for each in page.items]
    return ReadObjects(objects=tuple(found), unread=tuple(unread))
