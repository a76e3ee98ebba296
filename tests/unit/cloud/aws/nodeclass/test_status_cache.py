"""Node classes are read once for every change of them, while changes are reported."""

from typing import TYPE_CHECKING, TypeVar, cast

import msgspec
import pytest

from karpenter.api.meta import Resource
from karpenter.cloud.aws.nodeclass.status import NodeClassCache
from karpenter_local.testing.cluster_objects import ObjectsInMemory
from tests.unit.cloud.aws.world import simple_class

if TYPE_CHECKING:
    from karpenter.api.ec2nodeclass import EC2NodeClass

R = TypeVar("R", bound=Resource)


class Counting(ObjectsInMemory):
    """Objects that are counted when they are read."""

    reads = 0

    async def get(self, kind: type[R], name: str, *, namespace: str = "") -> R | None:
        self.reads += 1
        return await super().get(kind, name, namespace=namespace)


@pytest.mark.parametrize(
    ("followed", "reads"), [pytest.param(True, 1, id="followed"), pytest.param(False, 3, id="not followed")]
)
async def test_how_often_a_class_is_read(followed: bool, reads: int) -> None:
    """Once is enough where every change is told."""
    objects = Counting(simple_class())
    book = NodeClassCache(objects)
    if followed:
        book.follow()

    for _ in range(3):
        assert await book.get("default") is not None

    assert objects.reads == reads


async def test_a_class_that_has_changed_is_read_again() -> None:
    """What was read before is not believed."""
    objects = Counting(simple_class())
    book = NodeClassCache(objects)
    book.follow()
    await book.get("default")
    changed = msgspec.structs.replace(simple_class(), status=simple_class(instance_profile="p").status)
    objects.put(changed)
    book.changed("default")

    assert await book.get("default") is changed


async def test_a_class_that_is_missing_is_not_asked_for_again() -> None:
    """Until its creation is reported."""
    objects = Counting()
    book = NodeClassCache(objects)
    book.follow()

    assert [await book.get("none") for _ in range(2)] == [None, None]
    assert objects.reads == 1


async def test_a_change_while_a_class_is_read_is_not_missed() -> None:
    """What was read may be older than the change, and is not kept."""

    class Slow(Counting):
        async def get(self, kind: type[R], name: str, *, namespace: str = "") -> R | None:
            found = await super().get(kind, name, namespace=namespace)
            book.changed(name)
            return found

    objects = Slow(simple_class())
    book = NodeClassCache(objects)
    book.follow()
    for _ in range(2):
        assert cast("EC2NodeClass", await book.get("default")).name == "default"

    assert objects.reads == 2
