"""
Rules about workloads: what keeps them pending, and what keeps their nodes from going.

Looks at what owns pods (Deployments and the like) and at pods that nothing owns. Workloads in kube-system
belong to the cluster and not to its users; they are left alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import DO_NOT_DISRUPT, ZONE
from karpenter.api.meta import InvalidObject, LabelSelector, convert
from karpenter.cloud.catalogs.ec2.data import region_of_zone
from karpenter.convert.labels import PROVISIONER_NAME, RENAMED_ANNOTATIONS, RENAMED_LABELS
from karpenter.core.model.selectors import SelectorError, parse_selector
from karpenter.doctor.facts import DoctorFacts, Plain, at, list_at, mapping_at, number_at, text_at, texts_at
from karpenter.doctor.installation import tolerates
from karpenter.doctor.labels import selecting_requirements, zones_in
from karpenter.doctor.network import zones_of
from karpenter.doctor.nodepools import ec2_pools
from karpenter.doctor.objects import wrong_values
from karpenter.doctor.rule import ERROR, INFO, WARNING, DoctorRule, Symptom, listed, on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.manifests import Document

REPLICATED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
WORKLOADS: Final = (*REPLICATED, "DaemonSet", "Job", "CronJob", "Pod")
SYSTEM: Final = "kube-system"


def workloads(facts: DoctorFacts, *kinds: str) -> Iterator[Document]:
    """Yield what owns pods, and pods that nothing owns."""
    for each in facts.of_kind(*(kinds or WORKLOADS)):
        meta = mapping_at(each.plain, "metadata")
        if meta.get("namespace") != SYSTEM and not meta.get("ownerReferences"):
            yield each


def template_path(workload: Document) -> str:
    """Return where a workload has the template of its pods; empty for a pod."""
    kind = workload.identity[1]
    return {"Pod": "", "CronJob": "spec.jobTemplate.spec.template"}.get(kind, "spec.template")


def _template(workload: Document) -> tuple[str, Plain]:
    path = template_path(workload)
    return (f"{path}." if path else ""), mapping_at(workload.plain, path) if path else workload.plain


def _requests(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in workloads(facts):
        prefix, template = _template(each)
        spec = mapping_at(template, "spec")
        whole = mapping_at(spec, "resources.requests")
        for number, container in enumerate(list_at(spec, "containers")):
            resources = {
                **mapping_at(container, "resources.limits"),
                **mapping_at(container, "resources.requests"),
            }
            missing = [name for name in ("cpu", "memory") if name not in resources and name not in whole]
            if missing:
                yield on(
                    each,
                    f"container {at(container, 'name', number)} requests no {' and no '.join(missing)}",
                    field=f"{prefix}spec.containers[{number}].resources.requests",
                    severity="" if len(missing) == 2 else INFO,  # noqa: PLR2004  both
                )


def _replicas(workload: Document) -> int:
    return number_at(workload.plain, "spec.replicas", 1)


def _labels(workload: Document) -> dict[str, str]:
    found = mapping_at(_template(workload)[1], "metadata.labels")
    return {str(key): str(value) for key, value in found.items()}


def _selects(selector: Any, labels: dict[str, str]) -> bool:
    if not isinstance(selector, dict):
        return False
    try:
        return parse_selector(convert(selector, LabelSelector)).matches(labels)
    except (InvalidObject, SelectorError):
        return False


def _covered(facts: DoctorFacts, budget: Document) -> list[Document]:
    namespace = at(budget.plain, "metadata.namespace", "default")
    return [
        each
        for each in facts.of_kind(*REPLICATED)
        if at(each.plain, "metadata.namespace", "default") == namespace
        and not at(each.plain, "metadata.ownerReferences")
        and _selects(at(budget.plain, "spec.selector"), _labels(each))
    ]


def _pdb_blocks(facts: DoctorFacts) -> Iterator[Symptom]:
    for budget in facts.of_kind("PodDisruptionBudget"):
        total = sum(_replicas(each) for each in _covered(facts, budget))
        most, least = at(budget.plain, "spec.maxUnavailable"), at(budget.plain, "spec.minAvailable")
        if str(most) in {"0", "0%"}:
            field, message = "spec.maxUnavailable", f"is {most}, so that no pod may ever be evicted"
        elif str(least) == "100%":
            field, message = "spec.minAvailable", "is 100%, so that no pod may ever be evicted"
        elif least is not None and total and _share(least, total) >= total:
            field = "spec.minAvailable"
            message = f"is {least} of {total} replicas, so that no pod may ever be evicted"
        else:
            continue
        fix = "set maxUnavailable: 1" if total != 1 else "run two replicas, or set maxUnavailable: 1"
        yield on(budget, message, field=field, fix=fix)


def _share(value: int | str, total: int) -> int:
    """Return how many pods a number or a percentage means; percentages are rounded up."""
    # https://kubernetes.io/docs/tasks/run-application/configure-pdb/#rounding-logic-when-specifying-percentages
    text = str(value)
    if text.endswith("%") and text[:-1].isdigit():
        return math.ceil(int(text[:-1]) * total / 100)
    return int(text) if text.isdigit() else 0


def _pdb_overlap(facts: DoctorFacts) -> Iterator[Symptom]:
    covering: dict[tuple[str, str], list[Document]] = {}
    for budget in facts.of_kind("PodDisruptionBudget"):
        for each in _covered(facts, budget):
            covering.setdefault((each.source, each.subject), []).append(budget)
    for (_, subject), budgets in covering.items():
        if len(budgets) > 1:
            names = listed(str(at(each.plain, "metadata.name")) for each in budgets)
            yield on(budgets[0], f"{names} all cover the pods of {subject}", field="spec.selector")


def _zones(facts: DoctorFacts) -> set[str]:
    """Return the zones in which pools can launch; none where that is not known."""
    found: set[str] = set()
    for pool in facts.pools():
        found |= zones_of(pool) or set(facts.aws.zones or zones_in(facts.region))
    return found


def _spread_skew(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in workloads(facts, *REPLICATED):
        prefix, template = _template(each)
        for number, found in enumerate(list_at(template, "spec.topologySpreadConstraints")):
            if found.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule":
                continue
            field = f"{prefix}spec.topologySpreadConstraints[{number}]"
            if not _selects(found.get("labelSelector"), _labels(each)):
                yield on(
                    each,
                    "does not count the workload's own pods, so that they are not spread",
                    field=f"{field}.labelSelector",
                    fix="select the labels of the pod template",
                    severity=WARNING,
                )
            elif found.get("topologyKey") == ZONE:
                yield from _skew(facts, each, found, field)


def _skew(facts: DoctorFacts, workload: Document, found: Plain, field: str) -> Iterator[Symptom]:
    zones, replicas = _zones(facts), _replicas(workload)
    wanted, skew = number_at(found, "minDomains", 0), number_at(found, "maxSkew", 1)
    if zones and wanted > len(zones) and replicas > skew * len(zones):
        yield on(
            workload,
            f"wants {wanted} zones, and pools launch in {len(zones)} ({listed(zones)}): all but "
            f"{skew * len(zones)} pods stay pending",
            field=f"{field}.minDomains",
            fix=f"set minDomains to {len(zones)}, or let a NodePool launch in more zones",
        )
        return
    closed = _closed_zones(facts, workload) - zones
    if zones and closed and replicas > skew * len(zones):
        yield on(
            workload,
            f"counts {listed(closed)}, where it cannot run: all but {skew * len(zones)} pods stay pending",
            field=field,
            fix="set nodeTaintsPolicy: Honor, or let a NodePool launch in those zones",
            severity=WARNING if found.get("nodeTaintsPolicy") == "Honor" else "",
        )


def _closed_zones(facts: DoctorFacts, workload: Document) -> set[str]:
    """Return the zones that have nodes, all of them with a taint that the workload does not tolerate."""
    _, template = _template(workload)
    tolerations = list_at(template, "spec.tolerations")
    open_zones: set[str] = set()
    there: set[str] = set()
    for node in facts.of_kind("Node"):
        zone = str(mapping_at(node.plain, "metadata.labels").get(ZONE, ""))
        hard = [
            t
            for t in list_at(node.plain, "spec.taints")
            if text_at(t, "effect") in {"NoSchedule", "NoExecute"}
        ]
        there.add(zone)
        if all(any(tolerates(one, taint) for one in tolerations) for taint in hard):
            open_zones.add(zone)
    return there - open_zones - {""}


def _spread_missing(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in workloads(facts, "Deployment", "StatefulSet"):
        prefix, template = _template(each)
        anti = at(template, "spec.affinity.podAntiAffinity")
        if _replicas(each) > 1 and not list_at(template, "spec.topologySpreadConstraints") and not anti:
            message = f"{_replicas(each)} replicas may all be on one node, or in one zone"
            yield on(each, message, field=f"{prefix}spec.topologySpreadConstraints")


def _buys_elsewhere(facts: DoctorFacts) -> bool:
    """Return whether a pool buys from another cloud than EC2, whose labels have other values."""
    return len(list(ec2_pools(facts))) < len(list(facts.pools()))


def _selector_value(facts: DoctorFacts) -> Iterator[Symptom]:
    if _buys_elsewhere(facts):
        return
    for each in workloads(facts):
        prefix, template = _template(each)
        for field, requirement in selecting_requirements(mapping_at(template, "spec")):
            yield from wrong_values(each, requirement, f"{prefix}spec.{field}")


def _selector_zone(facts: DoctorFacts) -> Iterator[Symptom]:
    if _buys_elsewhere(facts):
        return
    known = set(facts.aws.zones or zones_in(facts.region))
    for each in workloads(facts):
        prefix, template = _template(each)
        for field, requirement in selecting_requirements(mapping_at(template, "spec")):
            values = texts_at(requirement, "values")
            if requirement.get("key") != ZONE or requirement.get("operator") != "In":
                continue
            zones = known or set().union(*(zones_in(region_of_zone(value)) for value in values))
            lost = [value for value in values if value not in zones]
            if values and lost == values:
                message = f"there is no zone {listed(lost)}"
                yield on(each, message, field=f"{prefix}spec.{field}")


def _old_label(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in workloads(facts):
        prefix, template = _template(each)
        for field, requirement in selecting_requirements(mapping_at(template, "spec")):
            key = text_at(requirement, "key")
            if key in RENAMED_LABELS:
                yield on(
                    each,
                    f"{key} is called {RENAMED_LABELS[key]} now",
                    field=f"{prefix}spec.{field}",
                    fix=f"write {RENAMED_LABELS[key]}, or run karpenter convert -f FILE",
                    severity=ERROR if key == PROVISIONER_NAME else INFO,
                )
        for key in mapping_at(template, "metadata.annotations"):
            if key in RENAMED_ANNOTATIONS:
                message = f"{key} has no effect since version 1"
                fix = f'write {RENAMED_ANNOTATIONS[key]}: "true"'
                yield on(each, message, field=f"{prefix}metadata.annotations", fix=fix)


def _do_not_disrupt(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in workloads(facts, *REPLICATED):
        prefix, template = _template(each)
        if str(mapping_at(template, "metadata.annotations").get(DO_NOT_DISRUPT, "")).lower() == "true":
            message = "nodes with a pod of it are not consolidated and do not drift while it runs"
            yield on(each, message, field=f"{prefix}metadata.annotations[{DO_NOT_DISRUPT}]")


RULES: Final = (
    DoctorRule(
        id="workload-requests",
        severity=WARNING,
        title="A container requests no cpu or no memory.",
        fix="set resources.requests for cpu and memory",
        why="The scheduler and the operator count it as nothing: nodes are bought too small, and run full.",
        check=_requests,
        needs=("objects",),
        link="https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",
    ),
    DoctorRule(
        id="pdb-blocks",
        severity=ERROR,
        title="A PodDisruptionBudget never allows an eviction.",
        fix="set maxUnavailable: 1",
        why="Nodes with such a pod cannot be drained: no consolidation, no new images, and upgrades wait.",
        check=_pdb_blocks,
        needs=("objects",),
        link="https://kubernetes.io/docs/tasks/run-application/configure-pdb/",
    ),
    DoctorRule(
        id="pdb-overlap",
        severity=ERROR,
        title="Two PodDisruptionBudgets cover the same pods.",
        fix="let each pod be covered by one budget",
        why="The eviction API answers every eviction of such a pod with an error.",
        check=_pdb_overlap,
        needs=("objects",),
        link="https://kubernetes.io/docs/concepts/workloads/pods/disruptions/",
    ),
    DoctorRule(
        id="spread-skew",
        severity=ERROR,
        title="A spread constraint leaves no room for all replicas.",
        fix="let NodePools launch in every zone that is counted, or use ScheduleAnyway",
        why="Pods beyond the allowed skew stay pending, whatever is launched.",
        check=_spread_skew,
        needs=("objects",),
        link="https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/",
    ),
    DoctorRule(
        id="spread-missing",
        severity=INFO,
        title="A workload with several replicas is not spread.",
        fix="add a topologySpreadConstraint over topology.kubernetes.io/zone",
        why="Consolidation puts pods together; one lost node or zone then takes all of them.",
        check=_spread_missing,
        needs=("objects",),
        link="https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/",
    ),
    DoctorRule(
        id="selector-value",
        severity=ERROR,
        title="A workload selects nodes by a label value that no node has.",
        fix="write the value as nodes carry it; most are lower case",
        why="Its pods stay pending.",
        check=_selector_value,
        needs=("objects",),
    ),
    DoctorRule(
        id="selector-zone",
        severity=ERROR,
        title="A workload selects a zone that there is not.",
        fix="name a zone of the region",
        why="Its pods stay pending.",
        check=_selector_zone,
        needs=("objects",),
    ),
    DoctorRule(
        id="old-label",
        severity=WARNING,
        title="A workload uses a label or an annotation from before version 1.",
        fix="karpenter convert -f FILE",
        why="Nodes no longer have the label, so that pods stay pending; annotations protect nothing.",
        check=_old_label,
        needs=("objects",),
        link="https://karpenter.sh/v1.0/upgrading/v1-migration/",
    ),
    DoctorRule(
        id="do-not-disrupt",
        severity=INFO,
        title="A replicated workload forbids disruption.",
        fix="leave the annotation out and use a PodDisruptionBudget, or give it a duration",
        why="Every node with such a pod stays as it is until it expires or is interrupted.",
        check=_do_not_disrupt,
        needs=("objects",),
        link="https://karpenter.sh/docs/concepts/disruption/#pod-level-controls",
    ),
)
