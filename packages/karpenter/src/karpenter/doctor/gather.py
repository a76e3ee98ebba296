"""
Facts from files and from a live cluster.

Files hold Kubernetes objects, values of the chart, IAM policies, and the objects of GitOps tools that state a
chart. A live cluster is read once, kind by kind; a kind that it does not serve has no objects, and one that
may not be read is named, so that the rules that need it are not checked. The last lines of the logs of the
operator's pods are read, too. Nothing is changed.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from karpenter.api.manifests import Document, documents_or_refusals, read_documents
from karpenter.api.meta import InvalidObject
from karpenter.base.files import unzip_bounded
from karpenter.doctor.facts import (
    HelmChart,
    LogText,
    Plain,
    PolicyText,
    UnreadableText,
    at,
    list_at,
    mapping_at,
    number_at,
)
from karpenter.kube.errors import Forbidden, StatusError
from karpenter.kube.rest import Selection
from karpenter.kube.targets import Target, untyped
from karpenter.session.access import ask_for_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karpenter.kube.client import Client

LIVE: Final = "cluster"
"""The source of objects that a live cluster holds."""

_CHART: Final = "karpenter"
_VALUES: Final = frozenset({"settings", "serviceAccount", "controller", "dnsPolicy", "webhook", "logConfig"})
_ENOUGH: Final = 2

KINDS: Final = tuple(
    untyped(api_version, plural, kind=kind, namespaced=namespaced)
    for api_version, plural, kind, namespaced in (
        ("karpenter.sh/v1", "nodepools", "NodePool", False),
        ("karpenter.k8s.aws/v1", "ec2nodeclasses", "EC2NodeClass", False),
        ("karpenter.sh/v1alpha5", "provisioners", "Provisioner", False),
        ("karpenter.k8s.aws/v1alpha1", "awsnodetemplates", "AWSNodeTemplate", False),
        ("v1", "nodes", "Node", False),
        ("v1", "serviceaccounts", "ServiceAccount", True),
        ("apps/v1", "deployments", "Deployment", True),
        ("apps/v1", "statefulsets", "StatefulSet", True),
        ("apps/v1", "daemonsets", "DaemonSet", True),
        ("batch/v1", "cronjobs", "CronJob", True),
        ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", True),
        ("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False),
        (
            "admissionregistration.k8s.io/v1",
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            False,
        ),
        (
            "admissionregistration.k8s.io/v1",
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            False,
        ),
    )
)
_CONFIG_MAPS: Final = untyped("v1", "configmaps", kind="ConfigMap", namespaced=True)
_SECRETS: Final = untyped("v1", "secrets", kind="Secret", namespaced=True)
_PODS: Final = untyped("v1", "pods", kind="Pod", namespaced=True)
_OPERATOR: Final = "app.kubernetes.io/name=karpenter"
"""The label that the chart gives the operator's pods, upstream's and ours."""

LOG_LINES: Final = 1000
"""Lines of each pod that are read where no other number is asked for."""

_MOST_PODS: Final = 5


class Gathered(NamedTuple):
    """What files or a cluster hold."""

    objects: tuple[Document, ...] = ()
    charts: tuple[HelmChart, ...] = ()
    policies: tuple[PolicyText, ...] = ()
    unreadable: tuple[UnreadableText, ...] = ()
    kubernetes: str | None = None
    unread: tuple[str, ...] = ()
    """What else of a cluster could not be read, and why."""

    denied: Mapping[str, str] = {}
    """Which kinds of a cluster may not be read, by name, and what the API server said."""

    role: str = ""
    """The commands by which an administrator lets them be read."""

    logs: tuple[LogText, ...] = ()


def read_manifests(texts: Iterable[tuple[str, str]]) -> Gathered:
    """Return what texts hold, each given with the name of its file."""
    objects: list[Document] = []
    charts: list[HelmChart] = []
    policies: list[PolicyText] = []
    unreadable: list[UnreadableText] = []
    for source, content in texts:
        if is_policy(source, content):
            policies.append(PolicyText(source=source, text=content))
            continue
        values = _chart_values(source, content)
        if values is not None:
            charts.append(values)
            continue
        for found in documents_or_refusals(content, source):
            if isinstance(found, Document):
                objects.append(found)
            else:
                unreadable.append(_unreadable(found, source, content))
    charts += charts_of(objects)
    return Gathered(tuple(objects), tuple(charts), tuple(policies), tuple(unreadable))


def is_policy(source: str, content: str) -> bool:
    """Return whether a file is an IAM policy, also one that is not JSON."""
    return source.endswith(".json") and '"Statement"' in content and '"Effect"' in content


def _unreadable(error: InvalidObject, source: str, content: str) -> UnreadableText:
    problem = f"{error.field}: {error.problem}" if error.field else error.problem
    # A template of a chart is not YAML yet, and a file of settings is no object.
    template = "{{" in content or error.problem.startswith("is not a Kubernetes object")
    return UnreadableText(source=error.subject or source, problem=problem, broken=not template)


def _chart_values(source: str, content: str) -> HelmChart | None:
    try:
        found = list(read_documents(content, source=source))
    except InvalidObject:
        return None
    if len(found) != 1 or not isinstance(found[0], dict) or "kind" in found[0]:
        return None
    if len(_VALUES & found[0].keys()) < _ENOUGH:
        return None
    return HelmChart(source=source, subject="values", values=found[0])


def charts_of(objects: Iterable[Document]) -> Iterator[HelmChart]:
    """Yield the installations of the chart that objects state: of Flux, Argo CD and Kustomize."""
    everything = list(objects)
    urls = {
        (each.identity[1], str(at(each.plain, "metadata.name"))): str(at(each.plain, "spec.url", ""))
        for each in everything
        if each.identity[1] in {"HelmRepository", "OCIRepository"}
    }
    for each in everything:
        match each.identity[1]:
            case "HelmRelease":
                yield from _flux(each, urls)
            case "Application":
                yield from _argo(each)
            case "Kustomization":
                yield from _kustomize(each)


def _flux(release: Document, urls: dict[tuple[str, str], str]) -> Iterator[HelmChart]:
    spec = mapping_at(release.plain, "spec")
    chart, reference = mapping_at(spec, "chart.spec"), mapping_at(spec, "chartRef")
    source = mapping_at(chart, "sourceRef") or reference
    if chart.get("chart") != _CHART and _CHART not in str(reference.get("name", "")):
        return
    meta = mapping_at(release.plain, "metadata")
    yield HelmChart(
        source=release.source,
        subject=release.subject,
        release=str(spec.get("releaseName") or meta.get("name", "")),
        namespace=str(spec.get("targetNamespace") or meta.get("namespace", "")),
        version=str(chart.get("version", "")),
        repository=urls.get((str(source.get("kind")), str(source.get("name"))), ""),
        values=mapping_at(spec, "values"),
        fields={"release": "spec.releaseName", "version": "spec.chart.spec.version"},
    )


def _argo(application: Document) -> Iterator[HelmChart]:
    spec = mapping_at(application.plain, "spec")
    for source in [mapping_at(spec, "source"), *list_at(spec, "sources")]:
        if not str(source.get("chart", "")).endswith(_CHART):
            continue
        helm = mapping_at(source, "helm")
        name = str(at(application.plain, "metadata.name", ""))
        yield HelmChart(
            source=application.source,
            subject=application.subject,
            release=str(helm.get("releaseName") or name),
            namespace=str(at(spec, "destination.namespace", "")),
            version=str(source.get("targetRevision", "")),
            repository=str(source.get("repoURL", "")),
            values=mapping_at(helm, "valuesObject") or _values(str(helm.get("values", ""))),
            tool="argocd",
            fields={
                "release": "spec.source.helm.releaseName",
                "version": "spec.source.targetRevision",
                "repository": "spec.source.repoURL",
            },
        )


def _kustomize(kustomization: Document) -> Iterator[HelmChart]:
    for number, each in enumerate(list_at(kustomization.plain, "helmCharts")):
        if each.get("name") == _CHART:
            yield HelmChart(
                source=kustomization.source,
                subject=kustomization.subject,
                release=str(each.get("releaseName", "")),
                namespace=str(each.get("namespace", "")),
                version=str(each.get("version", "")),
                repository=str(each.get("repo", "")),
                values=mapping_at(each, "valuesInline"),
                fields={
                    name: f"helmCharts[{number}].{field}"
                    for name, field in (
                        ("release", "releaseName"),
                        ("version", "version"),
                        ("repository", "repo"),
                    )
                },
            )


def _values(text: str) -> Plain:
    try:
        found = list(read_documents(text, source="values"))
    except InvalidObject:
        return {}
    return found[0] if found and isinstance(found[0], dict) else {}


async def read_cluster(client: Client, *, lines: int = LOG_LINES) -> Gathered:
    """
    Return what a live cluster holds, as far as it may be read, with the last lines of the operator's logs.

    Raises:
        KubeError: the cluster does not answer.
    """
    version = await client.server_version()
    aws_auth = Selection(namespace="kube-system", fields="metadata.name=aws-auth")
    selected: dict[Target[Any], Selection] = {
        _CONFIG_MAPS: aws_auth,
        _SECRETS: Selection(labels=f"owner=helm,name={_CHART}"),
        _PODS: Selection(labels=_OPERATOR),
    }

    async def listed(kind: Target[Any]) -> list[Document]:
        page = await client.list(kind, selected.get(kind, Selection()))
        plain = [{"apiVersion": kind.api_version, "kind": kind.kind, **each} for each in page.items]
        return [Document(LIVE, _without_managed(each)) for each in plain]

    found = await ask_for_each(client, (*KINDS, *selected), listed)
    unread: list[str] = []
    secrets, pods = found.answers.pop(_SECRETS.kind, []), found.answers.pop(_PODS.kind, [])
    objects = [each for documents in found.answers.values() for each in documents]
    charts = [chart for each in secrets if (chart := release_of(each.plain)) is not None]
    logs = await _logs(client, pods, lines, unread) if lines else ()
    return Gathered(
        tuple(objects),
        (*charts, *charts_of(objects)),
        kubernetes=version,
        unread=tuple(unread),
        denied={kind: str(error) for kind, error in found.denied.items()},
        role=found.role,
        logs=tuple(logs),
    )


async def _logs(client: Client, pods: list[Document], lines: int, unread: list[str]) -> list[LogText]:
    """Return the last lines of the operator's pods; of one that was started again, also those before."""
    found: list[LogText] = []
    for pod in [each.plain for each in pods][:_MOST_PODS]:
        meta = mapping_at(pod, "metadata")
        name, namespace = str(meta.get("name", "")), str(meta.get("namespace", ""))
        container = str(next(iter(list_at(pod, "spec.containers")), {}).get("name", ""))
        status = next((each for each in list_at(pod, "status.containerStatuses")), {})
        for previous in (True, False) if number_at(status, "restartCount", 0) else (False,):
            source = f"pod/{name}{' (before its last start)' if previous else ''}"
            try:
                text = await client.log(
                    name, namespace=namespace, lines=lines, container=container, previous=previous
                )
            except Forbidden as error:
                unread.append(f"the logs of the operator's pods: {error.message}")
                return found
            except StatusError as error:
                # A container that has not begun, a kubelet that does not answer.
                unread.append(f"the log of {source}: {error.message or error.reason}")
            else:
                found.append(LogText(source=source, text=text))
    return found


def _without_managed(plain: Plain) -> Plain:
    meta = {key: value for key, value in mapping_at(plain, "metadata").items() if key != "managedFields"}
    return {**plain, "metadata": meta}


# A Secret holds 1 MiB: https://kubernetes.io/docs/concepts/configuration/secret/
_LARGEST_RELEASE: Final = 64 * 1024**2


def release_of(secret: Plain) -> HelmChart | None:
    """Return the release that a secret of Helm describes; None where it is not the one that is deployed."""
    # base64 of Kubernetes around base64 of Helm around gzip: https://helm.sh/docs/topics/advanced/#storage-backends
    try:
        packed = base64.b64decode(base64.b64decode(str(mapping_at(secret, "data").get("release", ""))))
        found: Any = json.loads(unzip_bounded(packed, _LARGEST_RELEASE))
    except (ValueError, OSError, EOFError):
        return None
    if at(found, "info.status") != "deployed":
        return None
    return HelmChart(
        source=LIVE,
        subject=f"release/{found.get('name', '')}",
        release=str(found.get("name", "")),
        namespace=str(found.get("namespace", "")),
        version=str(at(found, "chart.metadata.version", "")),
        values=mapping_at(found, "config"),
    )
