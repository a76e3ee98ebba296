"""Who is managed, adopted and let go."""

from karpenter_local.controllers import plain
from karpenter_local.controllers.ephemeral import claims_for
from karpenter_local.controllers.namespaces import leftover_conditions
from karpenter_local.controllers.ownership import sort_plain, sort_pods
from tests.unit.local.controllers.objects import at, pod, workload

LABELS = {"app": "web"}


def test_sort_pods() -> None:
    """A set manages its own that match, adopts the uncontrolled, and releases what no longer matches."""
    owner, other = workload("ReplicaSet", "web"), workload("ReplicaSet", "other")
    candidates = [
        pod("mine", owner=owner, labels=LABELS),
        pod("relabelled", owner=owner),
        pod("stray", labels=LABELS),
        pod("dying", labels=LABELS, leaving=True),
        pod("theirs", owner=other, labels=LABELS),
        pod("unlike"),
    ]

    found = sort_pods(owner, plain.selector_of(owner), candidates)

    assert [each.name for each in found.mine] == ["mine"]
    assert [each.name for each in found.adopt] == ["stray"]
    assert [each.name for each in found.release] == ["relabelled"]


def test_sort_plain() -> None:
    """The same holds for objects that are kept whole."""
    owner = workload(name="web")
    mine = workload(
        "ReplicaSet", "mine", metadata={"labels": LABELS, "ownerReferences": [plain.reference_to(owner)]}
    )
    lost = workload("ReplicaSet", "lost", metadata={"ownerReferences": [plain.reference_to(owner)]})
    stray = workload("ReplicaSet", "stray", metadata={"labels": LABELS})
    unlike = workload("ReplicaSet", "unlike")

    found = sort_plain(owner, plain.selector_of(owner), [mine, lost, stray, unlike])

    assert (found.mine, found.adopt, found.release) == ((mine,), (stray,), (lost,))


def test_claims_of_ephemeral_volumes() -> None:
    """A claim is named after pod and volume, and belongs to the pod."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"storageClassName": "fast"}}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}, {"name": "tmp"}]

    made = claims_for(pod("web", volumes=volumes))

    assert [each["metadata"]["name"] for each in made] == ["web-scratch"]
    assert made[0]["metadata"]["ownerReferences"][0]["uid"] == "uid-web"
    assert made[0]["spec"]["storageClassName"] == "fast"


def test_what_a_namespace_waits_for() -> None:
    """A namespace that cannot go says what is left in it, and since when."""
    first = leftover_conditions([], {"pods": 2, "jobs.batch": 1}, at(0))
    again = leftover_conditions(first, {"pods": 1}, at(60))

    assert first[1]["message"] == (
        "Some resources are remaining: jobs.batch has 1 resource instances, pods has 2 resource instances"
    )
    assert again[1]["lastTransitionTime"] == at(0)
    assert leftover_conditions(first, {}, at(60))[1]["reason"] == "ContentRemoved"
