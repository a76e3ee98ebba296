"""
The replica sets of a deployment: which is the present one, what a new one looks like, which may be forgotten.

Pure: plain objects in, plain objects out.
"""

from collections.abc import Sequence

from karpenter.kube.targets import Plain
from karpenter_local.controllers import plain, templates
from karpenter_local.controllers.rollout import Replicas, RolloutLimits

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"

_NOT_COPIED = frozenset(
    {REVISION, HISTORY, DESIRED, MOST, "kubectl.kubernetes.io/last-applied-configuration"}
)


def revision_of(value: Plain) -> int:
    """Return the number by which users know a template of the deployment; 0 if it has none."""
    text = plain.annotations_of(value).get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def as_replicas(value: Plain) -> Replicas:
    """Return a replica set as the rollout's arithmetic sees it."""
    most = plain.annotations_of(value).get(MOST, "")
    return Replicas(
        name=plain.name_of(value),
        size=int(plain.spec_of(value).get("replicas", 0)),
        available=int(plain.status_of(value).get("availableReplicas", 0)),
        created=plain.created_at(value),
        most=int(most) if most.isdecimal() else None,
    )


def find_new(deployment: Plain, sets: Sequence[Plain]) -> Plain | None:
    """Return the oldest set with the deployment's present template."""
    template = plain.spec_of(deployment)["template"]
    for each in sorted(sets, key=lambda item: (plain.created_at(item), plain.name_of(item))):
        if templates.same(plain.spec_of(each).get("template") or {}, template):
            return each
    return None


def copied_annotations(deployment: Plain, onto: Plain) -> dict[str, str]:
    """Return a set's annotations with those that it takes over from its deployment."""
    taken = {k: v for k, v in plain.annotations_of(deployment).items() if k not in _NOT_COPIED}
    return {**plain.annotations_of(onto), **taken}


def next_revision(present: Plain | None, old: Sequence[Plain]) -> int:
    """Return the revision that the present template gets: one more than any other has."""
    highest = max((revision_of(each) for each in old), default=0)
    known = revision_of(present) if present is not None else 0
    return known if known > highest else highest + 1


def new_set(deployment: Plain, *, name_hash: str, size: int, revision: int, bounds: RolloutLimits) -> Plain:
    spec = plain.spec_of(deployment)
    template = templates.with_label(spec["template"], templates.HASH_LABEL, name_hash)
    selector = spec.get("selector") or {}
    body: Plain = {
        "metadata": {
            "name": f"{plain.name_of(deployment)}-{name_hash}",
            "namespace": plain.namespace_of(deployment),
            "labels": dict(template["metadata"]["labels"]),
            "annotations": {
                **copied_annotations(deployment, {"metadata": {}}),
                REVISION: str(revision),
                DESIRED: str(bounds.wanted),
                MOST: str(bounds.wanted + bounds.surge),
            },
            "ownerReferences": [plain.reference_to(deployment)],
        },
        "spec": {
            "replicas": size,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), templates.HASH_LABEL: name_hash},
            },
            "template": template,
        },
    }
    if spec.get("minReadySeconds"):
        body["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    return body


def expendable(deployment: Plain, old: Sequence[Plain]) -> list[Plain]:
    """Return the old sets beyond the history that is kept, the oldest revision first."""
    limit = plain.spec_of(deployment).get("revisionHistoryLimit", 10)
    if limit is None or limit == 2**31 - 1:
        return []
    empty = [
        each
        for each in old
        if not plain.is_leaving(each)
        and not plain.spec_of(each).get("replicas", 0)
        and not plain.status_of(each).get("replicas", 0)
        and plain.status_of(each).get("observedGeneration", 0) >= plain.generation_of(each)
    ]
    empty.sort(key=lambda each: (revision_of(each), plain.created_at(each), plain.name_of(each)))
    return empty[: max(0, len(old) - int(limit))]
