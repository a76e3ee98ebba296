"""Equal parts become one and the same; values never change."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.meta import ObjectMeta, OwnerReference, convert, tells_absent
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Container, Pod, PodSpec, PodStatus
from karpenter.core.model.nodepool_hash import pool_hash
from karpenter.kube.informer import MAX_EXTRA_FAMILIES, Cache, share
from karpenter.kube.targets import target_of, untyped


class Leaf(msgspec.Struct, frozen=True):
    """A struct with one field."""

    text: Any = ""


class Bare(msgspec.Struct, frozen=True):
    """A struct with none."""


class Branch(msgspec.Struct, frozen=True):
    """A struct with several."""

    leaf: Leaf = Leaf()
    leaves: tuple[Any, ...] = ()
    labels: Any = None
    bare: Bare = Bare()


def word(text: str) -> str:
    """Return a text that is no other object's."""
    return "".join(list(text))


def fresh(value: Any) -> Any:
    return msgspec.convert(msgspec.json.decode(msgspec.json.encode(value)), Branch)


def test_equal_parts_become_one() -> None:
    """A part that equals its counterpart is replaced by it, whatever it is."""
    old = Branch(Leaf(word("long text")), (word("first"), word("second")), {"a": "b"})
    new = fresh(Branch(Leaf("long text"), ("first", "second"), {"a": "c"}))

    share(new, old)

    assert new == Branch(Leaf("long text"), ("first", "second"), {"a": "c"})
    assert (new.leaf is old.leaf, new.leaves is old.leaves, new.labels is old.labels) == (True, True, False)


def test_unequal_parts_share_their_own_parts() -> None:
    """What differs is looked into; what is equal in there is shared."""
    old = Branch(Leaf(word("same text")), (Leaf(word("one")), word("two"), word("three")))
    new = fresh(Branch(Leaf("same text"), (Leaf("one"), "zwei", "three")))
    new = msgspec.structs.replace(new, leaves=(Leaf(word("one")), *new.leaves[1:]))

    share(new, old)

    assert new.leaves == (Leaf("one"), "zwei", "three")
    assert (new.leaves[0] is old.leaves[0], new.leaves[2] is old.leaves[2]) == (True, True)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(Branch(leaves=("a",)), Branch(leaves=("a", "b")), id="tuples of other lengths"),
        pytest.param(Branch(labels=1), Branch(labels=True), id="values that are equal across types"),
        pytest.param(Branch(labels=Leaf("a")), Branch(labels=Bare()), id="structs of other types"),
        pytest.param(Branch(), None, id="nothing to share with"),
        pytest.param({"a": 1}, {"a": 1}, id="dictionaries, which may be written to"),
        pytest.param("a", "b", id="texts"),
    ],
)
def test_what_is_not_alike_stays_apart(new: Any, old: Any) -> None:
    """Types count; what cannot be shared is left as it is."""
    before = repr(new)

    share(new, old)

    assert repr(new) == before


def node_pool(name: str, **template: Any) -> NodePool:
    """Return a NodePool as it is read."""
    plain = {"spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": name}}, **template}
    return convert({"metadata": {"name": name}, "spec": {"template": plain}}, NodePool)


@pytest.mark.parametrize("name", ["same", "another"])
@pytest.mark.parametrize(
    ("given", "before"),
    [
        pytest.param({"metadata": {"labels": {}}}, {}, id="an empty map, where none was given"),
        pytest.param({}, {"metadata": {"labels": {}}}, id="none, where an empty map was given"),
        pytest.param(
            {"metadata": {"annotations": {}}}, {"metadata": {"labels": {}}}, id="another map that is empty"
        ),
    ],
)
def test_what_was_not_given_stays_so(name: str, given: dict[str, Any], before: dict[str, Any]) -> None:
    """Karpenter's hashes tell an empty map from none, so neither takes the place of the other."""
    new, expected = node_pool("same", **given), pool_hash(node_pool("same", **given))

    assert not share(new, node_pool(name, **before))

    assert pool_hash(new) == expected


def test_pools_share_what_is_the_same() -> None:
    """What was given in the same way is shared, empty or not."""
    old, new = (node_pool("same", metadata={"labels": {}, "annotations": {"a": "b"}}) for _ in range(2))

    assert share(new, old)
    assert new.spec is old.spec


@pytest.mark.parametrize(
    ("kind", "expected"), [(NodePool, True), (NodeClaim, True), (EC2NodeClass, True), (Pod, False)]
)
def test_which_kinds_tell_what_was_not_given(kind: type[msgspec.Struct], expected: bool) -> None:
    """Those that are hashed, and what is made of them; pods, which are many, are compared at once."""
    assert tells_absent(kind) is expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.builds(Leaf, inner)
        | st.builds(Branch, st.builds(Leaf, inner), st.lists(inner, max_size=3).map(tuple), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(new=VALUES, old=VALUES)
def test_sharing_never_changes_a_value(new: Any, old: Any) -> None:
    """Whatever is shared, both objects equal what they were."""
    before = copy.deepcopy((new, old))

    share(new, old)

    assert (new, old) == before


def pod(name: str, *, owner: str = "", image: str = "registry.example/web:1") -> Pod:
    """Return a pod with nothing in common with any other."""
    return Pod(
        metadata=ObjectMeta(
            name=name,
            uid=name,
            resource_version="1",
            labels={"app": word("web")},
            owner_references=(OwnerReference(uid=owner),) if owner else (),
        ),
        spec=PodSpec(node_name=name, containers=(Container(name=word("main"), image=word(image)),)),
    )


def test_pods_of_one_owner_share_memory() -> None:
    """Siblings share labels and containers; strangers share what they happen to have in common."""
    cache = Cache(target_of(Pod), narrow=lambda item: item)
    for one in (pod("a", owner="x"), pod("b", owner="y", image="other"), pod("c", owner="x"), pod("d")):
        cache.listed(one)
    a, b, c, d = cache.store

    assert a.spec.containers is c.spec.containers
    assert a.spec.containers is not b.spec.containers
    assert a.metadata.labels is b.metadata.labels is c.metadata.labels is d.metadata.labels
    assert (a.name, c.name, c.spec.node_name) == ("a", "c", "c")


def test_a_cache_beside_its_server_shares_nothing() -> None:
    """Where memory does not matter, equal parts of objects are not looked for."""
    cache = Cache(target_of(Pod), narrow=lambda item: item, shares=False)
    for one in (pod("a", owner="x"), pod("b", owner="x")):
        cache.listed(one)
    a, b = cache.store

    assert a.spec.containers == b.spec.containers
    assert a.spec.containers is not b.spec.containers


def test_a_new_version_shares_what_did_not_change() -> None:
    """Whoever is told of a change sees by identity what is the same."""
    cache = Cache(target_of(Pod), narrow=lambda item: item)
    cache.listed(pod("a"))
    before = cache.store.get("a")
    changed = pod("a")
    cache.observe(
        msgspec.structs.replace(
            changed, metadata=msgspec.structs.replace(changed.metadata, resource_version="2")
        )
    )
    after = cache.store.get("a")

    assert before is not None
    assert after is not None
    assert after.spec is before.spec
    assert after.metadata.resource_version == "2"


def test_what_changed_is_shared_with_a_sibling() -> None:
    """A pod that begins to run shares its status with those that run; what is as before stays the same."""
    cache = Cache(target_of(Pod), narrow=lambda item: item)
    runs = PodStatus(phase=word("Running"), reason=word("because"))
    cache.listed(msgspec.structs.replace(pod("a", owner="x"), status=runs))
    cache.listed(pod("b", owner="x"))
    a, before = cache.store
    later = pod("b", owner="x")
    cache.observe(
        msgspec.structs.replace(
            later,
            metadata=msgspec.structs.replace(later.metadata, resource_version="2"),
            status=PodStatus(phase=word("Running"), reason=word("because")),
        )
    )
    b = cache.store.get("b")

    assert b is not None
    assert b.status is a.status
    assert b.spec is before.spec
    assert b.metadata.labels is before.metadata.labels


def test_families_that_are_gone_are_forgotten() -> None:
    """Memory does not grow with the number of owners that ever were."""
    cache = Cache(target_of(Pod), narrow=lambda item: item)
    for number in range(3 * MAX_EXTRA_FAMILIES):
        cache.completed({cache.listed(pod("a", owner=str(number)))}, "1")
        cache.completed(set(), "1")

    assert len(cache._siblings) <= MAX_EXTRA_FAMILIES + 2


def test_plain_objects_share_nothing() -> None:
    """Dictionaries belong to whoever asked for them."""
    target = untyped("v1", "pods", kind="Pod", namespaced=True)
    cache = Cache(target, narrow=lambda item: item)
    for name in ("a", "b"):
        cache.listed({"metadata": {"name": name, "labels": {"app": "web"}}})
    first, second = cache.store

    assert first["metadata"]["labels"] is not second["metadata"]["labels"]
