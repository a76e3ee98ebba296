"""
Rules about how the operator is installed: versions, the chart, DNS, and what must not run beside it.

Versions before 1 are judged too, because that is where upgrades begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter import __version__
from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.labels import NODEPOOL
from karpenter.api.validation.documents import refusal
from karpenter.chart.values import retired_values
from karpenter.doctor.facts import (
    DoctorFacts,
    HelmChart,
    Plain,
    at,
    list_at,
    mapping_at,
    operator_deployment,
    operator_of,
    parse_version,
    spelled,
    text_at,
    values_at,
)
from karpenter.doctor.rule import ERROR, WARNING, DoctorRule, Symptom, listed, on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.manifests import Document

Version = tuple[int, int, int]

# The least version of Karpenter for each version of Kubernetes.
# https://karpenter.sh/docs/upgrading/compatibility/
LEAST: Final[dict[tuple[int, int], Version]] = {
    (1, 23): (0, 21, 0),
    (1, 24): (0, 21, 0),
    (1, 25): (0, 25, 0),
    (1, 26): (0, 28, 0),
    (1, 27): (0, 28, 0),
    (1, 28): (0, 31, 0),
    (1, 29): (0, 34, 0),
    (1, 30): (0, 37, 0),
    (1, 31): (1, 0, 5),
    (1, 32): (1, 2, 0),
    (1, 33): (1, 5, 0),
    (1, 34): (1, 6, 0),
    (1, 35): (1, 9, 0),
    (1, 36): (1, 13, 0),
}
LEAST_KUBERNETES: Final = ((0, 22, 0), (1, 21))
"""From this version on, Karpenter needs this version of Kubernetes."""

LEAST_KUBERNETES_OF_OURS: Final = (1, 25)
"""What the chart of this project states as kubeVersion."""

OCI: Final = "oci://public.ecr.aws/karpenter/karpenter"
OLD_REPOSITORY: Final = "https://charts.karpenter.sh"
OCI_SINCE: Final = (0, 17, 0)
PREFIXED: Final = ((0, 17, 0), (0, 35, 0))
"""Chart versions in the registry begin with v from the first of these on, until before the second."""

CLUSTER_DNS: Final = "ClusterFirst"

# Webhook configurations that Karpenter before 1.1 made. https://karpenter.sh/v1.0/upgrading/v1-migration/
OLD_WEBHOOKS: Final = frozenset(
    {
        "defaulting.webhook.karpenter.k8s.aws",
        "defaulting.webhook.karpenter.sh",
        "defaulting.webhook.provisioners.karpenter.sh",
        "validation.webhook.config.karpenter.sh",
        "validation.webhook.karpenter.k8s.aws",
        "validation.webhook.karpenter.sh",
        "validation.webhook.provisioners.karpenter.sh",
    }
)

# Which field came with which version.
# https://karpenter.sh/docs/upgrading/upgrade-guide/
FEATURES: Final[tuple[tuple[str, str, Version], ...]] = (
    ("Provisioner", "spec.consolidation", (0, 15, 0)),
    ("Provisioner", "spec.weight", (0, 16, 0)),
    ("AWSNodeTemplate", "spec.detailedMonitoring", (0, 23, 0)),
    ("NodePool", "spec.template", (0, 32, 0)),
    ("EC2NodeClass", "spec.subnetSelectorTerms", (0, 32, 0)),
    ("NodePool", "spec.disruption.budgets", (0, 34, 0)),
    ("NodePool", "spec.template.spec.expireAfter", (1, 0, 0)),
    ("NodePool", "spec.template.spec.terminationGracePeriod", (1, 0, 0)),
)
QUEUE_SINCE: Final = (0, 19, 0)


def _kubernetes_version(facts: DoctorFacts) -> Iterator[Symptom]:
    operator, kubernetes = operator_of(facts), parse_version(facts.kubernetes or "")
    if operator is None or kubernetes is None:
        return
    minor = kubernetes[:2]
    if operator.ours and minor < LEAST_KUBERNETES_OF_OURS:
        yield on(
            operator,
            message=f"version {__version__} needs Kubernetes {spelled(LEAST_KUBERNETES_OF_OURS)} or later, "
            f"not {spelled(minor)}",
            fix=f"upgrade the cluster to {spelled(LEAST_KUBERNETES_OF_OURS)} or later",
        )
    if operator.version is None:
        return
    since, least = LEAST_KUBERNETES
    if operator.version >= since and minor < least:
        yield on(
            operator,
            message=f"Karpenter {spelled(operator.version)} does not run on Kubernetes {spelled(minor)}",
            fix=f"upgrade the cluster to {spelled(least)} or later, or stay below Karpenter {spelled(since)}",
        )
    wanted = LEAST.get(minor) or (max(LEAST.values()) if minor > max(LEAST) else (0, 0, 0))
    if operator.version < wanted:
        yield on(
            operator,
            message=f"Karpenter {spelled(operator.version)} does not support Kubernetes {spelled(minor)}",
            fix=f"upgrade Karpenter to {spelled(wanted)} or later before the cluster",
        )


def _chart(chart: HelmChart, what: str, message: str, fix: str, severity: str = "") -> Symptom:
    return on(chart, message, field=chart.fields.get(what, what), fix=fix, severity=severity)


def _chart_version_prefix(facts: DoctorFacts) -> Iterator[Symptom]:
    first, end = PREFIXED
    for chart in facts.charts or ():
        version = parse_version(chart.version)
        if version is None or not chart.repository:  # what is running has found its chart
            continue
        number = chart.version.strip().removeprefix("v")
        has_prefix = chart.version.strip().startswith("v")
        if version >= end and has_prefix:
            message = f"{chart.version}: from {spelled(end)} on, chart versions have no v in front"
            yield _chart(chart, "version", message, f"write {number}")
        elif first <= version < end and not has_prefix:
            message = (
                f"{chart.version}: from {spelled(first)} until {spelled(end)}, the registry has v{number}"
            )
            yield _chart(chart, "version", message, f"write v{number}")


def _chart_repository(facts: DoctorFacts) -> Iterator[Symptom]:
    for chart in facts.charts or ():
        version, repository = parse_version(chart.version), chart.repository
        if not repository:
            continue
        if repository.startswith("public.ecr.aws/") and chart.tool != "argocd":
            message = f"{repository} is a registry, and Helm needs oci:// in front of one"
            yield _chart(chart, "repository", message, f"write oci://{repository}")
        if version is None:
            continue
        is_old = "charts.karpenter.sh" in repository
        if version >= OCI_SINCE and is_old:
            message = f"{repository} has no version from {spelled(OCI_SINCE)} on, and {chart.version} is one"
            yield _chart(chart, "repository", message, f"use {OCI}")
        elif version < OCI_SINCE and "public.ecr.aws/karpenter" in repository:
            message = f"the registry has no version before {spelled(OCI_SINCE)}, and {chart.version} is one"
            yield _chart(chart, "repository", message, f"use {OLD_REPOSITORY}, or a later version")


def _release_name(facts: DoctorFacts) -> Iterator[Symptom]:
    for chart in facts.charts or ():
        version = parse_version(chart.version)
        if not chart.release or chart.release == "karpenter" or version is None or version < OCI_SINCE:
            continue
        by_add_on = "blueprints-addon" in chart.release
        yield _chart(
            chart,
            "release",
            f"the release is called {chart.release}, so is its service account unless it is named, and the "
            "chart from the registry unpacks under karpenter only",
            "uninstall it and install it as karpenter",
            ERROR if by_add_on else "",
        )


def _chart_values(facts: DoctorFacts) -> Iterator[Symptom]:
    for chart in facts.charts or ():
        version = parse_version(chart.version)
        if version is not None and spelled(version) != __version__ and version < (1, 1, 0):
            continue  # these values had an effect then
        for sentence in retired_values(chart.values):
            path = sentence.partition(" ")[0]
            yield _chart(chart, f"values.{path}", sentence.rstrip("."), f"remove {path} from the values")


def _version_feature(facts: DoctorFacts) -> Iterator[Symptom]:
    operator = operator_of(facts)
    version = operator.version if operator is not None else None
    for kind, path, since in FEATURES:
        for each in facts.of_kind(kind):
            if version is not None and version < since and at(each.plain, path) is not None:
                yield on(
                    each,
                    f"came with Karpenter {spelled(since)}, and {spelled(version)} is installed",
                    field=path,
                    fix=f"upgrade Karpenter to {spelled(since)} or later, or leave {path} out",
                )
    if operator is not None and version is not None and version < QUEUE_SINCE and operator.queue:
        yield on(
            operator,
            field="settings.interruptionQueue",
            message=f"came with {spelled(QUEUE_SINCE)}, and {spelled(version)} is installed",
            fix="upgrade, or install AWS Node Termination Handler",
        )
    for each in facts.of_kind("Provisioner"):
        ttl = at(each.plain, "spec.ttlSecondsAfterEmpty") is not None
        if ttl and at(each.plain, "spec.consolidation.enabled") is True:
            message = "excludes consolidation, and both are set"
            yield on(each, message, field="spec.ttlSecondsAfterEmpty", fix="keep one of the two")


def _old_kinds(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in facts.objects or ():
        sentence = refusal(*each.identity)
        if sentence is not None:
            yield on(each, sentence.partition("; ")[0], field="apiVersion")


def _dns_policy(facts: DoctorFacts) -> Iterator[Symptom]:
    operator = operator_of(facts)
    if operator is None or operator.dns_policy == "Default":
        return
    labels = {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
    for selector in facts.aws.fargate or ():
        if selector.namespace == operator.namespace and selector.labels.items() <= labels.items():
            version = spelled(operator.version) if operator.version is not None else __version__
            yield on(
                operator,
                field="dnsPolicy",
                message=f"is {operator.dns_policy} in version {version} on Fargate: the operator needs "
                "CoreDNS, which may need a node of the operator",
            )
            return


def _coredns_deadlock(facts: DoctorFacts) -> Iterator[Symptom]:
    operator = operator_of(facts)
    if operator is None or operator.dns_policy != CLUSTER_DNS:
        return
    for each in facts.of_kind("Deployment"):
        if (
            at(each.plain, "metadata.labels.k8s-app") != "kube-dns"
            and at(each.plain, "metadata.name") != "coredns"
        ):
            continue
        tolerations = list_at(each.plain, "spec.template.spec.tolerations")
        fixed = _unmanaged(facts)
        refusing = [node for node in fixed if _refused(node, tolerations)]
        if fixed and len(refusing) == len(fixed):
            taint = _refused(fixed[0], tolerations)
            yield on(
                each,
                f"tolerates no node that is there without the operator (taint {taint}), and the operator "
                "resolves names through it",
                field="spec.template.spec.tolerations",
                fix=f"let CoreDNS tolerate {taint}, or set dnsPolicy: Default for the operator",
            )


def _unmanaged(facts: DoctorFacts) -> list[Document]:
    """Return the nodes that the operator does not manage."""
    nodes = facts.of_kind("Node")
    return [each for each in nodes if NODEPOOL not in mapping_at(each.plain, "metadata.labels")]


def _refused(node: Document, tolerations: list[Any]) -> str:
    """Return the taint of a node that tolerations do not cover; empty where all are."""
    for taint in list_at(node.plain, "spec.taints"):
        if text_at(taint, "effect") in {"NoSchedule", "NoExecute"} and not any(
            tolerates(each, taint) for each in tolerations
        ):
            return f"{taint.get('key')}={taint.get('value', '')}:{taint.get('effect')}"
    return ""


def tolerates(toleration: Plain, taint: Plain) -> bool:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    if text_at(toleration, "effect") not in {"", text_at(taint, "effect")}:
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint.get("key"):
        return False
    has_value = str(toleration.get("value", "")) == str(taint.get("value") or "")
    return toleration.get("operator") == "Exists" or has_value


def _controller_placement(facts: DoctorFacts) -> Iterator[Symptom]:
    deployment = operator_deployment(facts)
    if deployment is None:
        return
    affinity = "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    terms = list_at(deployment.plain, f"{affinity}.nodeSelectorTerms")
    kept_off = bool(terms) and all(map(_keeps_off, terms))
    if not kept_off and not mapping_at(deployment.plain, "spec.template.spec.nodeSelector").keys() - {
        "kubernetes.io/os",
        "kubernetes.io/arch",
    }:
        message = "the operator may run on a node that it manages, and disrupt itself"
        yield on(deployment, message, field=affinity)


def _keeps_off(term: Plain) -> bool:
    """Return whether a term excludes nodes that the operator manages."""
    return any(
        each.get("key") == NODEPOOL and each.get("operator") == "DoesNotExist"
        for each in list_at(term, "matchExpressions")
    )


def _replicas(facts: DoctorFacts) -> Iterator[Symptom]:
    operator, deployment = operator_of(facts), operator_deployment(facts)
    if operator is None or deployment is None:
        return
    fixed = [each for each in _unmanaged(facts) if not at(each.plain, "spec.unschedulable")]
    labels = [mapping_at(each.plain, "metadata.labels") for each in fixed]
    fargate = any(each.get("eks.amazonaws.com/compute-type") == "fargate" for each in labels)
    if fixed and not fargate and operator.replicas > len(fixed):
        yield on(
            deployment,
            f"{operator.replicas} replicas need as many nodes that the operator does not manage; there is "
            f"{len(fixed)}",
            field="spec.replicas",
            fix=f"set replicas to {len(fixed)}, or add a node to the node group",
        )


def _cluster_name(facts: DoctorFacts) -> Iterator[Symptom]:
    operator = operator_of(facts)
    if operator is None or "${" in operator.cluster_name:
        return
    if not operator.cluster_name:
        yield on(
            operator,
            field="settings.clusterName",
            message="is not set",
            fix=f"set it to {facts.cluster or 'the name of the EKS cluster'}",
        )
    elif facts.cluster and operator.cluster_name != facts.cluster:
        yield on(
            operator,
            field="settings.clusterName",
            message=f"is {operator.cluster_name}, and the cluster is {facts.cluster}",
            fix=f"set it to {facts.cluster}",
        )


def _crd_version(facts: DoctorFacts) -> Iterator[Symptom]:
    there = {str(at(each.plain, "metadata.name")): each for each in facts.of_kind("CustomResourceDefinition")}
    for definition in DEFINITIONS:
        wanted = render(definition)
        name, kind = wanted["metadata"]["name"], wanted["spec"]["names"]["kind"]
        found = there.get(name)
        if found is None:
            if facts.live and kind in {"NodePool", "NodeClaim", "EC2NodeClass"}:
                yield Symptom(subject=f"CustomResourceDefinition/{name}", message="is not installed")
            continue
        yield from _crd(found, wanted)


def _crd(found: Document, wanted: Plain) -> Iterator[Symptom]:
    versions = {str(each.get("name")): each for each in list_at(found.plain, "spec.versions")}
    current = wanted["spec"]["versions"][0]
    served = versions.get(current["name"])
    if served is None or not served.get("served"):
        message = f"serves {listed(versions)}, not {current['name']}"
        yield on(found, message, field="spec.versions")
        return
    stored = set(map(str, values_at(found.plain, "status.storedVersions"))) - {current["name"]}
    if stored:
        yield on(
            found,
            f"objects may still be stored as {listed(stored)}",
            field="status.storedVersions",
            fix="write every object again, then remove the old versions from status.storedVersions",
            severity=WARNING,
        )
    missing = _fields(current) - _fields(served)
    if missing:
        yield on(
            found,
            f"is of another version: it lacks {listed(missing, most=3)}",
            field="spec.versions",
            severity=WARNING,
        )


def _fields(version: Plain) -> set[str]:
    """Return the paths of a schema down to the third level, which is where versions differ."""
    found: set[str] = set()

    def walk(schema: Plain, path: str, depth: int) -> None:
        for name, member in mapping_at(schema, "properties").items():
            here = f"{path}.{name}" if path else name
            found.add(here)
            if depth and isinstance(member, dict):
                walk(member, here, depth - 1)

    walk(mapping_at(mapping_at(version, "schema.openAPIV3Schema"), "properties.spec"), "spec", 3)
    return found


def _leftover_webhook(facts: DoctorFacts) -> Iterator[Symptom]:
    operator = operator_of(facts)
    has_webhooks = operator is not None and operator.version is not None and operator.version < (1, 1, 0)
    for each in facts.of_kind("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        if text_at(each.plain, "metadata.name") in OLD_WEBHOOKS and not has_webhooks:
            kind = each.plain["kind"].lower()
            name = at(each.plain, "metadata.name")
            message = "is left of a version before 1.1: what it is asked about is refused or delayed"
            yield on(each, message, fix=f"kubectl delete {kind} {name}")
    for each in facts.of_kind("CustomResourceDefinition"):
        ours = str(at(each.plain, "spec.group", "")) in {"karpenter.sh", "karpenter.k8s.aws"}
        if ours and at(each.plain, "spec.conversion.strategy") == "Webhook" and not has_webhooks:
            yield on(
                each,
                "asks a conversion webhook of an older version, which no longer answers",
                field="spec.conversion",
                fix="karpenter crds | kubectl apply --server-side --force-conflicts -f -",
            )


def _cluster_autoscaler(facts: DoctorFacts) -> Iterator[Symptom]:
    if operator_of(facts) is None and not any(facts.pools()):
        return
    for each in facts.of_kind("Deployment"):
        if _is_called(each, "cluster-autoscaler") and at(each.plain, "spec.replicas", 1) != 0:
            name, namespace = at(each.plain, "metadata.name"), at(each.plain, "metadata.namespace", "default")
            message = "runs beside the operator: both add and remove nodes for the same pods"
            fix = f"kubectl -n {namespace} scale deployment {name} --replicas 0"
            yield on(each, message, field="spec.replicas", fix=fix)


def _termination_handler(facts: DoctorFacts) -> Iterator[Symptom]:
    operator = operator_of(facts)
    if operator is None or not operator.queue:
        return
    for each in facts.of_kind("DaemonSet", "Deployment"):
        if _is_called(each, "aws-node-termination-handler"):
            yield on(each, f"the operator reads interruptions itself, from the queue {operator.queue}")


def _is_called(workload: Document, name: str) -> bool:
    images = [str(each.get("image", "")) for each in list_at(workload.plain, "spec.template.spec.containers")]
    return name in str(at(workload.plain, "metadata.name", "")) or any(name in each for each in images)


_NEEDS_OBJECTS: Final = ("objects",)

RULES: Final = (
    DoctorRule(
        id="kubernetes-version",
        severity=ERROR,
        title="The version of Karpenter and that of Kubernetes do not go together.",
        fix="upgrade Karpenter first, then the cluster",
        why="The operator stops at its start, or calls APIs that are gone.",
        check=_kubernetes_version,
        needs=("kubernetes", "operator"),
        link="https://karpenter.sh/docs/upgrading/compatibility/",
    ),
    DoctorRule(
        id="chart-version-prefix",
        severity=ERROR,
        title="The chart version has a v in front where the registry has none, or the reverse.",
        fix="write it as the registry has it: with v from 0.17.0 through 0.34, without from 0.35.0 on",
        why="Helm does not find the chart.",
        check=_chart_version_prefix,
        needs=("charts",),
        link="https://karpenter.sh/docs/upgrading/upgrade-guide/",
    ),
    DoctorRule(
        id="chart-repository",
        severity=ERROR,
        title="The chart is looked for where this version is not.",
        fix=f"use {OCI} from 0.17.0 on, {OLD_REPOSITORY} before",
        why="Helm does not find the chart, or takes a registry for a web site.",
        check=_chart_repository,
        needs=("charts",),
        link="https://karpenter.sh/docs/upgrading/upgrade-guide/",
    ),
    DoctorRule(
        id="release-name",
        severity=WARNING,
        title="The Helm release is not called karpenter.",
        fix="uninstall it and install it as karpenter",
        why="Objects are named after the release, so trust policies that name the service account karpenter "
        "do not apply; the CDK add-on cannot unpack the chart at all.",
        check=_release_name,
        needs=("charts",),
    ),
    DoctorRule(
        id="chart-values",
        severity=WARNING,
        title="A value of an older chart has no effect.",
        fix="remove it; karpenter convert -f VALUES moves those that have a new place",
        why="The setting is believed to be in force, and is not.",
        check=_chart_values,
        needs=("charts",),
    ),
    DoctorRule(
        id="version-feature",
        severity=ERROR,
        title="A field is used that the installed version does not know.",
        fix="upgrade Karpenter, or leave the field out",
        why="The object is refused, or the field is ignored.",
        check=_version_feature,
        needs=("objects", "operator"),
        link="https://karpenter.sh/docs/upgrading/upgrade-guide/",
    ),
    DoctorRule(
        id="old-kinds",
        severity=ERROR,
        title="An object is of a kind from before version 1.",
        fix="karpenter convert -f FILE",
        why="Version 1 does not read it, and nodes are expected from it.",
        check=_old_kinds,
        needs=_NEEDS_OBJECTS,
        link="https://karpenter.sh/v1.0/upgrading/v1-migration/",
    ),
    DoctorRule(
        id="cluster-name",
        severity=ERROR,
        title="The operator is told no name of the cluster, or another one.",
        fix="set settings.clusterName to the name of the EKS cluster",
        why="The operator asks EKS for a cluster that is not there, and tags instances for it.",
        check=_cluster_name,
        needs=("operator",),
    ),
    DoctorRule(
        id="dns-policy",
        severity=ERROR,
        title="The operator runs on Fargate and resolves names through CoreDNS.",
        fix="set the chart value dnsPolicy: Default",
        why="CoreDNS may wait for a node that only the operator can make, and the operator for CoreDNS. "
        "Charts from 0.14 until before 0.34 set it themselves.",
        check=_dns_policy,
        needs=("operator", "aws.fargate"),
        link="https://karpenter.sh/docs/troubleshooting/",
    ),
    DoctorRule(
        id="coredns-deadlock",
        severity=ERROR,
        title="CoreDNS can run on no node but those that the operator makes.",
        fix="let CoreDNS tolerate the taint of the operator's nodes, or set dnsPolicy: Default",
        why="The operator resolves names through CoreDNS, CoreDNS waits for a node, and neither starts.",
        check=_coredns_deadlock,
        needs=("live", "operator"),
        link="https://karpenter.sh/docs/troubleshooting/",
    ),
    DoctorRule(
        id="controller-placement",
        severity=WARNING,
        title="The operator may run on a node that it manages.",
        fix="require karpenter.sh/nodepool DoesNotExist by node affinity, as the chart does",
        why="It may consolidate the node that it runs on, and nothing is left to make another.",
        check=_controller_placement,
        needs=_NEEDS_OBJECTS,
    ),
    DoctorRule(
        id="controller-replicas",
        severity=WARNING,
        title="The operator has more replicas than there are nodes for them.",
        fix="set replicas to the number of nodes that the operator does not manage",
        why="Replicas are kept apart, so one stays pending, and helm --wait does not end.",
        check=_replicas,
        needs=("live", "operator"),
    ),
    DoctorRule(
        id="crd-version",
        severity=ERROR,
        title="The CustomResourceDefinitions are missing, or of another version.",
        fix="karpenter crds | kubectl apply --server-side --force-conflicts -f -",
        why="Helm installs definitions once and never upgrades them, so new fields are dropped silently.",
        check=_crd_version,
        needs=_NEEDS_OBJECTS,
        link="https://helm.sh/docs/chart_best_practices/custom_resource_definitions/",
    ),
    DoctorRule(
        id="leftover-webhook",
        severity=ERROR,
        title="A webhook of an older version is still registered.",
        fix="delete the webhook configuration",
        why="The API server asks a service that is gone, and refuses NodePools, NodeClaims or ConfigMaps.",
        check=_leftover_webhook,
        needs=_NEEDS_OBJECTS,
        link="https://karpenter.sh/v1.0/upgrading/v1-migration/",
    ),
    DoctorRule(
        id="cluster-autoscaler",
        severity=ERROR,
        title="Cluster Autoscaler runs beside the operator.",
        fix="scale Cluster Autoscaler to 0",
        why="Both answer the same pending pods with nodes, and each removes what the other made.",
        check=_cluster_autoscaler,
        needs=_NEEDS_OBJECTS,
        link="https://karpenter.sh/docs/getting-started/migrating-from-cas/",
    ),
    DoctorRule(
        id="node-termination-handler",
        severity=WARNING,
        title="AWS Node Termination Handler runs beside the operator's own interruption handling.",
        fix="uninstall aws-node-termination-handler",
        why="Both drain the same node.",
        check=_termination_handler,
        needs=_NEEDS_OBJECTS,
        link="https://karpenter.sh/docs/faq/",
    ),
)
