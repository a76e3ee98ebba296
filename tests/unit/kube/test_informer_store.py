"""Objects are found by key and by index, in the order they came."""

from karpenter.kube.informer import IndexedStore, ObjectVersion

OLD, NEW = ObjectVersion("u", "1"), ObjectVersion("u", "2")


def by_node(pod: dict[str, str]) -> tuple[str, ...]:
    return (pod["node"],) if "node" in pod else ()


def letters(word: str) -> str:
    return word


def test_an_object_is_found_by_its_key() -> None:
    """Putting returns what was there before."""
    store = IndexedStore[str]()

    assert (store.put("a", "first", OLD), store.put("a", "second", NEW)) == (None, "first")
    assert (store.get("a"), store.stamp("a"), "a" in store, len(store)) == ("second", NEW, True, 1)


def test_nothing_is_found_under_an_unknown_key() -> None:
    """What is not held has no object and no stamp."""
    store = IndexedStore[str]()

    assert (store.get("a"), store.stamp("a"), "a" in store, store.remove("a")) == (None, None, False, None)


def test_an_index_follows_changes() -> None:
    """An object is under the value it has now, and under no other."""
    store = IndexedStore(indexers={"node": by_node})
    store.put("a", {"node": "n1"}, OLD)
    store.put("b", {"node": "n1"}, OLD)
    store.put("c", {}, OLD)
    store.put("a", {"node": "n2"}, NEW)

    assert (store.find("node", "n1"), store.find("node", "n2")) == (({"node": "n1"},), ({"node": "n2"},))
    assert store.values("node") == ("n1", "n2")


def test_an_empty_value_disappears_from_its_index() -> None:
    """A value without objects is not listed."""
    store = IndexedStore(indexers={"node": by_node})
    store.put("a", {"node": "n1"}, OLD)
    store.remove("a")

    assert (store.find("node", "n1"), store.values("node"), list(store)) == ((), (), [])


def test_an_object_may_be_under_several_values() -> None:
    """An index may repeat a value without harm."""
    store = IndexedStore(indexers={"letter": letters})
    store.put("a", "abba", OLD)
    store.remove("a")

    assert store.values("letter") == ()


def test_everything_comes_in_the_order_it_came() -> None:
    """Iteration is the same on every run."""
    store = IndexedStore(indexers={"letter": letters})
    for key in ("c", "a", "b"):
        store.put(key, f"x{key}", OLD)

    assert list(store) == ["xc", "xa", "xb"]
    assert store.items() == (("c", "xc"), ("a", "xa"), ("b", "xb"))
    assert store.find("letter", "x") == ("xc", "xa", "xb")
    assert store.stamps() == (("c", OLD), ("a", OLD), ("b", OLD))
