"""The garbage collector at work, on built-in and custom kinds."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from karpenter.api.kinds import ALL_KINDS
from karpenter.kube.targets import Plain, untyped
from karpenter_local.controllers.garbagecollector import IGNORED
from tests.unit.local.controllers.clusters import Small, small_cluster

CONFIG_MAPS = untyped("v1", "configmaps", kind="ConfigMap", namespaced=True)
DEFINITIONS = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
WIDGETS = untyped("example.com/v1", "widgets", kind="Widget", namespaced=True)

DEFINITION = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


@pytest.fixture
async def small() -> AsyncIterator[Small]:
    """A cluster that knows widgets."""
    async with small_cluster() as running:
        await running.client.create(DEFINITIONS, DEFINITION)
        await asyncio.sleep(2)
        yield running


def owned(name: str, *owners: Plain, **reference: Any) -> Plain:
    """Return a config map that belongs to others."""
    references = [
        {
            "apiVersion": each["apiVersion"],
            "kind": each["kind"],
            "name": each["metadata"]["name"],
            "uid": each["metadata"]["uid"],
            **reference,
        }
        for each in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references}}


async def maps(small: Small) -> list[str]:
    """Return the names of the config maps that tests made."""
    return [name for name in await small.names(CONFIG_MAPS) if name != "kube-root-ca.crt"]


async def test_a_custom_owner(small: Small) -> None:
    """What belongs to an object of a custom kind goes with it."""
    boss = await small.make(WIDGETS, {"metadata": {"name": "boss"}})
    await small.make(CONFIG_MAPS, owned("mine", boss))
    await small.make(CONFIG_MAPS, {"metadata": {"name": "free"}})

    await small.delete(WIDGETS, "boss")

    assert await maps(small) == ["free"]


async def test_two_owners(small: Small) -> None:
    """An object with two owners stays until the second is gone, and forgets the first."""
    one = await small.make(WIDGETS, {"metadata": {"name": "one"}})
    two = await small.make(WIDGETS, {"metadata": {"name": "two"}})
    await small.make(CONFIG_MAPS, owned("shared", one, two, blockOwnerDeletion=True))

    await small.delete(WIDGETS, "one")
    left = await small.get(CONFIG_MAPS, "shared")
    assert [each["name"] for each in left["metadata"]["ownerReferences"]] == ["two"]
    await small.delete(WIDGETS, "two")
    assert await maps(small) == []


async def test_an_owner_that_never_was(small: Small) -> None:
    """An object whose owner does not exist is collected; one whose owner is of an unknown kind is not."""
    ghost = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "ghost", "uid": "missing"},
    }
    alien = {"apiVersion": "other.com/v1", "kind": "Alien", "metadata": {"name": "alien", "uid": "unknown"}}
    await small.make(CONFIG_MAPS, owned("haunted", ghost))
    await small.make(CONFIG_MAPS, owned("strange", alien))

    assert await maps(small) == ["strange"]


async def test_a_namesake_is_no_owner(small: Small) -> None:
    """An owner that was deleted and made again under its name is another one."""
    first = await small.make(WIDGETS, {"metadata": {"name": "boss"}})
    await small.delete(WIDGETS, "boss", propagation="Orphan")
    await small.make(WIDGETS, {"metadata": {"name": "boss"}})
    await small.make(CONFIG_MAPS, owned("late", first))

    assert await maps(small) == []


async def test_left_behind_on_purpose(small: Small) -> None:
    """What is orphaned stays, without owner references."""
    boss = await small.make(WIDGETS, {"metadata": {"name": "boss"}})
    await small.make(CONFIG_MAPS, owned("mine", boss))
    await small.delete(WIDGETS, "boss", propagation="Orphan")

    assert await small.get(WIDGETS, "boss") is None
    left = await small.get(CONFIG_MAPS, "mine")
    assert not left["metadata"].get("ownerReferences")


async def test_the_owner_waits(small: Small) -> None:
    """In the foreground the owner goes last, after what holds it."""
    boss = await small.make(WIDGETS, {"metadata": {"name": "boss"}})
    held = owned("stuck", boss, blockOwnerDeletion=True)
    held["metadata"]["finalizers"] = ["example.com/wait"]
    await small.make(CONFIG_MAPS, held)
    await small.delete(WIDGETS, "boss", propagation="Foreground")
    assert (await small.get(WIDGETS, "boss"))["metadata"]["finalizers"] == ["foregroundDeletion"]

    await small.change(CONFIG_MAPS, "stuck", metadata={"finalizers": None})
    assert await small.get(WIDGETS, "boss") is None


async def test_a_kind_that_goes(small: Small) -> None:
    """When a custom kind is removed its objects are deleted, and the collector goes on."""
    boss = await small.make(WIDGETS, {"metadata": {"name": "boss"}})
    await small.make(CONFIG_MAPS, owned("mine", boss))
    await small.client.delete(DEFINITIONS, "widgets.example.com")
    await asyncio.sleep(70)

    other = await small.make(CONFIG_MAPS, {"metadata": {"name": "boss"}})
    await small.make(CONFIG_MAPS, owned("still-works", other))
    await small.delete(CONFIG_MAPS, "boss")
    assert "still-works" not in await maps(small)


def test_kinds_that_are_not_followed_exist() -> None:
    """Events have no dependents, and there are too many of them to follow."""
    assert {kind.name for kind in ALL_KINDS} >= IGNORED == {"Event"}
