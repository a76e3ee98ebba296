"""Hashes of classes: when they are written, and when claims are stamped anew."""

from typing import Any

import msgspec
import pytest

from karpenter.api.meta import Condition
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION
from karpenter.cloud.aws.nodeclass.hash import CLASS_HASH_VERSION as VERSION
from karpenter.cloud.aws.nodeclass.hash import NodeClassHashController
from karpenter.core.effects import Amend
from karpenter.core.state.cluster import NodeClass, ObjectDeleted, ObjectUpdated
from tests.unit.cloud.aws.scripted import NOW, launched, of_another, seen
from tests.unit.cloud.aws.world import World, shared_world, simple_class

DRIFTED = Condition(type="Drifted", status="True", reason="Drifted")


def stamps(
    *claims: NodeClaim, annotations: dict[str, str] | None = None, leaving: bool = False
) -> dict[str, Any]:
    """Return the annotations that are written for a class and claims, by name."""
    world = shared_world()
    found = simple_class()
    metadata = msgspec.structs.replace(
        found.metadata, annotations=annotations or {}, deletion_timestamp=NOW if leaving else None
    )
    world.objects.put(msgspec.structs.replace(found, metadata=metadata))

    async def work(provider: AwsProvider) -> dict[str, Any]:
        care = NodeClassHashController(
            objects=provider.services.objects, view=seen(*claims), cluster=provider.services.cluster
        )
        step = await care.reconcile("default")
        amends = [each for each in step.effects if isinstance(each, Amend)]
        return {each.name: each.changes["metadata"]["annotations"] for each in amends}

    return world.run(work)


OUR_HASH = stamps()["default"][CLASS_HASH]
OURS = {CLASS_HASH: OUR_HASH, CLASS_HASH_VERSION: VERSION}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, OURS, id="none"),
        pytest.param({CLASS_HASH: "1", CLASS_HASH_VERSION: VERSION}, OURS, id="another hash"),
        pytest.param({CLASS_HASH: OUR_HASH, CLASS_HASH_VERSION: "v6"}, OURS, id="another version"),
        pytest.param(OURS, None, id="the right ones"),
    ],
)
def test_a_class_is_stamped(annotations: dict[str, str], expected: dict[str, str] | None) -> None:
    """What it carries is what it hashes to, in the way that we hash."""
    assert stamps(annotations=annotations).get("default") == expected


def test_a_class_that_leaves_is_not_stamped() -> None:
    """No claim will be compared with it."""
    assert stamps(leaving=True) == {}


OLD = {CLASS_HASH: "1", CLASS_HASH_VERSION: "v6"}


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(launched("c", annotations=OLD), OURS, id="of another version"),
        pytest.param(launched("c"), OURS, id="without a hash"),
        pytest.param(
            launched("c", annotations=OLD, conditions=(DRIFTED,)),
            {CLASS_HASH_VERSION: VERSION},
            id="that has drifted keeps its hash",
        ),
        pytest.param(launched("c", annotations={**OURS, CLASS_HASH: "1"}), None, id="of our version"),
        pytest.param(launched("c", annotations=OLD, node_class="other"), None, id="of another class"),
        pytest.param(of_another(launched("c", annotations=OLD), kind="Other"), None, id="of another kind"),
        pytest.param(of_another(launched("c", annotations=OLD), group="x"), None, id="of another group"),
    ],
)
def test_claims_are_stamped_anew_when_hashing_has_changed(
    claim: NodeClaim, expected: dict[str, str] | None
) -> None:
    """A new way of hashing must not replace machines, nor hide that one has drifted."""
    assert stamps(claim, annotations=OLD).get("c") == expected


def test_claims_are_left_alone_while_hashing_is_the_same() -> None:
    """A claim with an old hash has drifted; that is the point of the hash."""
    assert stamps(launched("c", annotations=OLD), annotations={**OURS, CLASS_HASH: "1"}) == {"default": OURS}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(
            ObjectUpdated(NodeClass(group="g", kind="k", name="a")), ["a"], id="a class that has changed"
        ),
        pytest.param(ObjectDeleted(NodeClass(group="g", kind="k", name="a")), [], id="a class that is gone"),
        pytest.param(ObjectUpdated(launched()), [], id="a claim"),
    ],
)
def test_wakes(event: Any, expected: list[str]) -> None:
    """Only classes that are there are hashed."""
    world: World = shared_world()

    async def work(provider: AwsProvider) -> list[str]:
        care = NodeClassHashController(
            objects=provider.services.objects, view=seen(), cluster=provider.services.cluster
        )
        return list(care.wakes(event, None))

    assert world.run(work) == expected
