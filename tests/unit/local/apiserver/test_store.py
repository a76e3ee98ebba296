import pytest

from karpenter_local.apiserver.store import ObjectStore


def written(name: str, **meta: str) -> dict[str, dict[str, str]]:
    return {"metadata": {"name": name, **meta}}


def test_every_write_has_a_revision_of_its_own() -> None:
    """Revisions count writes of all tables together, and are stamped into the objects."""
    store = ObjectStore()

    first = store.put("pods", "default/a", written("a"))
    second = store.put("nodes", "n", written("n"))
    gone = store.delete("pods", "default/a")

    assert [entry.revision for entry in (first, second, gone)] == [2, 3, 4]
    assert gone.object()["metadata"]["resourceVersion"] == "4"


def test_what_is_stored_cannot_be_altered_by_accident() -> None:
    """Every reader gets a copy of its own."""
    store = ObjectStore()
    store.put("pods", "default/a", written("a"))
    entry = store.get("pods", "default/a")
    assert entry is not None

    entry.object()["metadata"]["name"] = "changed"

    assert entry.object()["metadata"]["name"] == "a"


def test_keys_are_listed_in_the_order_of_the_api() -> None:
    """A namespace that is the beginning of another does not mix with it."""
    store = ObjectStore()
    for key in ("a/z", "a-b/a", "b/a", "a/b"):
        store.put("pods", key, written(key.partition("/")[2]))

    table = store.table("pods")

    assert table.keys == ["a-b/a", "a/b", "a/z", "b/a"]
    assert table.between("a") == ["a/b", "a/z"]
    assert table.between("nowhere") == []


def test_deleting_what_is_not_there_is_an_error() -> None:
    """The verbs look first; the store does not guess."""
    with pytest.raises(KeyError):
        ObjectStore().delete("pods", "default/a")


def test_a_new_table_remembers_nothing_before_its_birth() -> None:
    """Who asks a table opened late for older history is told that it is gone."""
    store = ObjectStore()
    store.put("pods", "default/a", written("a"))

    table = store.open("things.example.com")

    assert table.history.cursor(1) is None
    assert table.history.cursor(store.revision) == 0


def test_changing_the_stored_version_rewrites_silently() -> None:
    """Objects move to another version without a new revision or an event."""
    store = ObjectStore()
    store.put("things", "default/a", {"apiVersion": "example.com/v1beta1", "metadata": {"name": "a"}})
    revision = store.revision

    store.rewrite("things", "example.com/v1")

    entry = store.get("things", "default/a")
    assert entry is not None
    assert entry.object()["apiVersion"] == "example.com/v1"
    assert (store.revision, entry.revision) == (revision, revision)


def test_selectable_fields_can_change_later() -> None:
    """A definition that adds a selectable field makes old objects selectable, too."""
    store = ObjectStore()
    store.put("things", "default/a", {"metadata": {"name": "a"}, "spec": {"size": "big"}})

    store.select_by("things", lambda value: {"spec.size": value["spec"]["size"]})

    entry = store.get("things", "default/a")
    assert entry is not None
    assert entry.fields == {"spec.size": "big"}
