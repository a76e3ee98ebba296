"""
What a cluster with Karpenter in it says about itself: its Deployment, its release, its alerts.

Objects are plain, as the API server holds them. Reading a live cluster changes nothing; a kind that it does
not serve has no objects, and one that may not be read is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.install.release import OWNED, ReleaseRecord, latest, read_release
from karpenter.kube.errors import Forbidden, NotFound
from karpenter.kube.rest import Selection, untyped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.kube.client import Client

CHART: Final = "karpenter"
_NAME: Final = "app.kubernetes.io/name"
_INSTANCE: Final = "app.kubernetes.io/instance"
_SIDECARS: Final = frozenset({"istio-proxy", "linkerd-proxy"})

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


class Installation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Karpenter that runs in the cluster."""

    namespace: str = "kube-system"
    deployment: str = ""
    """Empty where no Deployment of Karpenter was found."""

    replicas: int = 0
    image: str = ""
    instance: str = CHART
    """The label ``app.kubernetes.io/instance`` of its pods."""

    environment: dict[str, str] = {}
    """Variables of the container that are stated as text."""

    arguments: tuple[str, ...] = ()
    release: str = ""
    """The release of Helm that it belongs to; empty where it was installed otherwise."""

    revision: int = 0
    chart_version: str = ""
    values: dict[str, Any] = {}
    """What was set in the release."""


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


def of_kind(objects: Iterable[Mapping[str, Any]], *kinds: str) -> list[Mapping[str, Any]]:
    return [each for each in objects if each.get("kind") in kinds]


def find_installation(objects: Iterable[Mapping[str, Any]]) -> Installation:
    """Return the Karpenter that runs; one without a name of a Deployment where there is none."""
    everything = list(objects)
    records = latest(read_release(each) for each in of_kind(everything, "Secret"))
    release = next((each for each in records if each.chart == CHART), None)
    deployments = [each for each in of_kind(everything, "Deployment") if _is_operator(each)]
    # A release and a Deployment of it are in one namespace; another Deployment may be a copy for tests.
    deployments.sort(key=lambda each: release is None or _namespace(each) != release.namespace)
    return _installation(deployments[0] if deployments else None, release)


def _installation(deployment: Mapping[str, Any] | None, release: ReleaseRecord | None) -> Installation:
    facts: dict[str, Any] = {}
    if release is not None:
        facts = {
            "namespace": release.namespace,
            "release": release.name,
            "revision": release.revision,
            "chart_version": release.chart_version,
            "values": release.config,
            "instance": release.name,
        }
    if deployment is not None:
        container, pod = _container(deployment), deployment["spec"].get("template") or {}
        labels = (pod.get("metadata") or {}).get("labels") or {}
        facts |= {
            "namespace": _namespace(deployment),
            "deployment": str(deployment["metadata"]["name"]),
            "replicas": int(deployment["spec"].get("replicas", 1)),
            "image": str(container.get("image", "")),
            "instance": str(labels.get(_INSTANCE, CHART)),
            "environment": {
                str(each["name"]): str(each["value"])
                for each in container.get("env") or ()
                if "value" in each
            },
            "arguments": tuple(map(str, container.get("args") or ())),
        }
    return Installation(**facts)


def _namespace(item: Mapping[str, Any]) -> str:
    return str((item.get("metadata") or {}).get("namespace") or "default")


def _is_operator(deployment: Mapping[str, Any]) -> bool:
    labels = (deployment.get("metadata") or {}).get("labels") or {}
    container = _container(deployment)
    names = {str(each.get("name", "")) for each in container.get("env") or ()}
    return bool(container) and (labels.get(_NAME) == CHART or {"CLUSTER_NAME", "FEATURE_GATES"} <= names)


def _container(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = [each for each in pod.get("containers") or () if each.get("name") not in _SIDECARS]
    named = [each for each in containers if each.get("name") == "controller"]
    found: Mapping[str, Any] = (named or containers or [{}])[0]
    return found
