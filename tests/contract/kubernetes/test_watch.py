"""Watches: order, resuming, bookmarks, and being told that the past is gone."""

import pytest

from tests.contract.kubernetes.api import Api, Object, Watch, done
from tests.contract.kubernetes.objects import configmap, lease, pod, secret
from tests.contract.kubernetes.servers import Running
from tests.contract.kubernetes.things import definition, place, served, thing


def version_of(made: Object) -> int:
    return int(made["metadata"]["resourceVersion"])


def revision(api: Api, resource: str = "secrets") -> str:
    return str(done(api.find(resource))["metadata"]["resourceVersion"])


def test_a_watch_tells_changes_in_order(api: Api) -> None:
    """Added, modified, deleted, one after the other."""
    with api.watch("secrets", resourceVersion=revision(api)) as watch:
        api.make("secrets", secret("a"))
        api.make("secrets", secret("b"))
        done(api.patch("secrets", "a", {"metadata": {"labels": {"x": "1"}}}))
        done(api.delete("secrets", "b"))

        assert watch.take(4) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_versions_grow_along_a_watch(api: Api) -> None:
    """Later events carry larger versions, the delete's own too."""
    with api.watch("secrets", resourceVersion=revision(api)) as watch:
        api.make("secrets", secret("a"))
        done(api.patch("secrets", "a", {"metadata": {"labels": {"x": "1"}}}))
        done(api.delete("secrets", "a"))

        versions = [version_of(event["object"]) for event in watch.many(3)]

    assert versions == sorted(set(versions))


def test_a_watch_event_holds_the_whole_object(api: Api) -> None:
    """The object in an event is what a get returns at that version."""
    with api.watch("secrets", resourceVersion=revision(api)) as watch:
        made = api.make("secrets", secret("a"))

        assert watch.next() == {"type": "ADDED", "object": made}


def test_a_delete_event_holds_the_last_state(api: Api) -> None:
    """The object in a delete event is the last one seen, at the version of the delete."""
    made = api.make("secrets", secret("a", labels={"x": "1"}))
    with api.watch("secrets", resourceVersion=revision(api)) as watch:
        done(api.delete("secrets", "a"))
        event = watch.next()

    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["labels"] == {"x": "1"}
    assert version_of(event["object"]) > version_of(made)


@pytest.mark.parametrize("start", [None, "0"], ids=["no version", "version zero"])
def test_a_watch_from_nowhere_begins_with_what_is_there(api: Api, start: str | None) -> None:
    """Without a version, a watch starts with an ADDED for every object."""
    for name in "ab":
        api.make("secrets", secret(name))
    query = {} if start is None else {"resourceVersion": start}

    with api.watch("secrets", **query) as watch:
        first = sorted(watch.take(2))
        api.make("secrets", secret("c"))

        assert first == [("ADDED", "a"), ("ADDED", "b")]
        assert watch.take(1) == [("ADDED", "c")]


def test_a_watch_resumes_where_it_stopped(api: Api) -> None:
    """From the version of the last event, nothing is lost and nothing is told twice."""
    with api.watch("secrets", resourceVersion=revision(api)) as watch:
        api.make("secrets", secret("a"))
        seen = watch.next()["object"]["metadata"]["resourceVersion"]
    api.make("secrets", secret("b"))
    done(api.delete("secrets", "a"))

    with api.watch("secrets", resourceVersion=seen) as watch:
        assert watch.take(2) == [("ADDED", "b"), ("DELETED", "a")]


def test_a_list_and_a_watch_meet_without_a_gap(api: Api) -> None:
    """The version of a list is where to watch from."""
    api.make("secrets", secret("a"))
    listed = done(api.find("secrets"))
    api.make("secrets", secret("b"))

    with api.watch("secrets", resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        assert watch.take(1) == [("ADDED", "b")]


def test_a_watch_sees_its_namespace_only(api: Api) -> None:
    """Other namespaces are not told."""
    other = api.make("namespaces", {"metadata": {"name": f"{api.unique}-b"}})["metadata"]["name"]
    with api.watch("secrets", resourceVersion=revision(api)) as watch:
        done(api.send("POST", api.path("secrets", namespace=other), secret("there")))
        api.make("secrets", secret("here"))

        assert watch.take(1) == [("ADDED", "here")]


def test_a_watch_over_all_namespaces(api: Api) -> None:
    """Without a namespace in the address, all are told."""
    with api.watch(
        api.everywhere("leases"), labelSelector=f"of={api.unique}", resourceVersion=revision(api)
    ) as watch:
        api.make("leases", lease("a", labels={"of": api.unique}))

        assert watch.take(1) == [("ADDED", "a")]


def test_a_watch_on_one_object(api: Api) -> None:
    """A field selector on the name narrows a watch."""
    query = {"fieldSelector": "metadata.name=b", "resourceVersion": revision(api)}
    with api.watch("secrets", **query) as watch:
        for name in "abc":
            api.make("secrets", secret(name))
        done(api.delete("secrets", "b"))

        assert watch.take(2) == [("ADDED", "b"), ("DELETED", "b")]


def test_a_label_that_begins_to_match_is_added(api: Api) -> None:
    """Entering a selection looks like a create."""
    api.make("secrets", secret("a"))
    with api.watch("secrets", labelSelector="x=1", resourceVersion=revision(api)) as watch:
        done(api.patch("secrets", "a", {"metadata": {"labels": {"x": "1"}}}))

        assert watch.take(1) == [("ADDED", "a")]


def test_a_label_that_ceases_to_match_is_deleted(api: Api) -> None:
    """Leaving a selection looks like a delete, with the object as it was at the new version."""
    api.make("secrets", secret("a", labels={"x": "1"}))
    with api.watch("secrets", labelSelector="x=1", resourceVersion=revision(api)) as watch:
        patched = done(api.patch("secrets", "a", {"metadata": {"labels": {"x": "2"}}}))
        event = watch.next()

    assert (event["type"], event["object"]["metadata"]["labels"]) == ("DELETED", {"x": "1"})
    assert version_of(event["object"]) == version_of(patched)


def test_a_change_outside_the_selection_is_not_told(api: Api) -> None:
    """What does not match before or after is silent."""
    with api.watch("secrets", labelSelector="x=1", resourceVersion=revision(api)) as watch:
        api.make("secrets", secret("a", labels={"x": "2"}))
        done(api.delete("secrets", "a"))
        api.make("secrets", secret("b", labels={"x": "1"}))

        assert watch.take(1) == [("ADDED", "b")]


def test_a_write_that_changes_nothing_is_not_told(api: Api) -> None:
    """No change, no event."""
    made = api.make("secrets", secret("a"))
    with api.watch("secrets", resourceVersion=revision(api)) as watch:
        done(api.replace("secrets", made))
        api.make("secrets", secret("b"))

        assert watch.take(1) == [("ADDED", "b")]


def test_a_pod_that_gets_its_node_enters_the_nodes_watch(api: Api) -> None:
    """A kubelet watches its own pods, and a binding brings one in."""
    api.make("pods", pod("a"))
    target = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"name": api.unique},
    }
    with api.watch(
        "pods", fieldSelector=f"spec.nodeName={api.unique}", resourceVersion=revision(api, "pods")
    ) as watch:
        done(api.create("pods", target, name="a", sub="binding"))

        assert watch.take(1) == [("ADDED", "a")]


def test_a_watch_ends_after_its_timeout(api: Api) -> None:
    """A watch keeps to its timeoutSeconds, and the end is clean."""
    with api.watch("secrets", resourceVersion=revision(api), timeoutSeconds=1) as watch:
        assert watch.rest() == []


def test_a_bookmark_before_the_end(api: Api) -> None:
    """A watch that allows bookmarks gets at least one before its timeout, at a version to resume from."""
    with api.watch(
        "secrets", resourceVersion=revision(api), timeoutSeconds=3, allowWatchBookmarks="true"
    ) as watch:
        made = api.make("secrets", secret("a"))
        *others, bookmark = watch.rest()

    assert sorted({event["type"] for event in others}) in (["ADDED"], ["ADDED", "BOOKMARK"])
    assert bookmark["type"] == "BOOKMARK"
    assert (bookmark["object"]["kind"], bookmark["object"]["apiVersion"]) == ("Secret", "v1")
    assert version_of(bookmark["object"]) >= version_of(made)


@pytest.mark.parametrize("shape", ["PartialObjectMetadata", "Table"])
@pytest.mark.parametrize("resource", ["secrets", "things"])
def test_a_bookmark_has_the_shape_of_the_events(api: Api, things: str, shape: str, resource: str) -> None:
    """A client that watches metadata, or a table, decodes bookmarks as what it asked for."""
    accept = {"Accept": f"application/json;as={shape};v=v1;g=meta.k8s.io"}
    there = things if resource == "things" else api.path(resource)
    query = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    api.make(there, thing("a", {"size": 1}) if resource == "things" else secret("a"))

    with api.wire.stream(there, query=query, headers=accept) as response:
        _, bookmark = Watch(response).many(2)

    found = bookmark["object"]
    assert bookmark["type"] == "BOOKMARK"
    assert (found["kind"], found["apiVersion"]) == (shape, "meta.k8s.io/v1")
    assert int(found["metadata"]["resourceVersion"]) > 0
    if shape == "PartialObjectMetadata":
        assert set(found["metadata"]) <= {"resourceVersion", "annotations"}
    else:
        assert found["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_no_bookmarks_unless_allowed(api: Api) -> None:
    """A watch that does not ask for bookmarks gets none."""
    with api.watch("secrets", resourceVersion=revision(api), timeoutSeconds=3) as watch:
        api.make("secrets", secret("a"))
        assert [event["type"] for event in watch.rest()] == ["ADDED"]


def test_a_streaming_list(api: Api) -> None:
    """With sendInitialEvents: what is there, then a marked bookmark, then what comes."""
    for name in "ab":
        api.make("secrets", secret(name))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }

    with api.watch("secrets", **query) as watch:
        first = sorted(watch.take(2))
        mark = watch.next()
        api.make("secrets", secret("c"))
        then = watch.take(1)

    assert first == [("ADDED", "a"), ("ADDED", "b")]
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert then == [("ADDED", "c")]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        pytest.param({"sendInitialEvents": "true"}, "resourceVersionMatch", id="needs resourceVersionMatch"),
        pytest.param(
            {"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "resourceVersion": "1"},
            "resourceVersionMatch",
            id="needs NotOlderThan",
        ),
        pytest.param(
            {"resourceVersionMatch": "NotOlderThan"},
            "resourceVersionMatch",
            id="a match without initial events",
        ),
    ],
)
def test_streaming_lists_are_particular(api: Api, query: dict[str, str], field: str) -> None:
    """The options of a streaming list belong together."""
    answer = api.find("secrets", watch="true", **query)

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert field in [where for where, _, _ in answer.causes]


def test_the_distant_past_is_gone(api: Api) -> None:
    """A watch from before all that is remembered is told so by an error event, which is its last."""
    group = f"{api.unique}.example.com"
    path = place(api, group)
    api.make("customresourcedefinitions", definition(group, {"type": "object"}))
    assert served(api, path)

    with api.watch(path, resourceVersion="1") as watch:
        assert watch.status == 200
        [event] = watch.rest()

    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


def test_after_being_told_a_client_lists_anew(api: Api, server: Running) -> None:
    """A list and a watch from its version work after a compaction."""
    api.make("secrets", secret("a"))
    server.compact()
    start = revision(api)
    api.make("secrets", secret("b"))

    with api.watch("secrets", resourceVersion=start) as watch:
        assert watch.take(1) == [("ADDED", "b")]


@pytest.mark.parametrize("version", ["abc", "-1", "1.5"])
def test_a_watch_from_what_is_no_version(api: Api, version: str) -> None:
    """Versions of a watch are numbers; the real server calls anything else its own fault."""
    answer = api.find("secrets", watch="true", resourceVersion=version)

    assert answer.status == 500
    assert answer.message.startswith(f'resourceVersion: Invalid value: "{version}"')


def test_a_watch_from_the_future_waits(api: Api) -> None:
    """From a version that is not yet there, nothing is told."""
    with api.watch("secrets", resourceVersion="999999999", timeoutSeconds=1) as watch:
        assert watch.rest() == []


def test_the_old_way_to_watch(api: Api) -> None:
    """An address with /watch/ in it still works."""
    api.make("secrets", secret("a"))
    path = f"/api/v1/watch/namespaces/{api.namespace}/secrets"

    with api.watch(path) as watch:
        assert watch.take(1) == [("ADDED", "a")]


def test_a_watch_of_one_object_by_its_address(api: Api) -> None:
    """GET on an object with watch=true is a watch on its name."""
    api.make("configmaps", configmap("a"))
    api.make("configmaps", configmap("b"))

    with api.watch(api.path("configmaps", "b"), timeoutSeconds=2) as watch:
        body = watch.rest()

    assert [event.get("type", event["kind"]) for event in body] == ["ConfigMap"]


def test_many_watchers_see_the_same(api: Api) -> None:
    """Each of several watches tells the same story."""
    start = revision(api)
    query = {"resourceVersion": start}
    with api.watch("secrets", **query) as one, api.watch("secrets", **query) as two:
        for name in "abc":
            api.make("secrets", secret(name))

        assert one.take(3) == two.take(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
