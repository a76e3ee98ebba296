"""Each listener hears each version once, in order, and each end once, however it is told."""

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.typing import EventDict

from karpenter.kube.client import WatchChange
from karpenter.kube.informer import Cache, InformerDelete, InformerEvent, InformerUpdate, is_after
from karpenter.kube.targets import Plain, untyped

PODS = untyped("v1", "pods", kind="Pod", namespaced=True)


def pod(version: int | str, *, name: str = "a", uid: str = "u1") -> Plain:
    return {"metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version)}}


def change(type_: Literal["ADDED", "MODIFIED", "DELETED"], item: Plain) -> WatchChange[Plain]:
    return WatchChange(type_, PODS.identify(item), item)


class Story:
    """What a listener heard, in short."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def __call__(self, event: InformerEvent[Plain]) -> None:
        meta = event.object["metadata"]
        told = "seen" if isinstance(event, InformerUpdate) else "removed"
        self.heard.append(f"{told} {meta['name']} {meta['uid']}@{meta['resourceVersion']}")


@pytest.fixture
def cache() -> Cache[Plain]:
    """A cache of plain pods."""
    return Cache(PODS, narrow=lambda item: item)


@pytest.fixture
def story(cache: Cache[Plain]) -> Story:
    """A listener from the start."""
    story = Story()
    cache.subscribe(story)
    return story


def list_(cache: Cache[Plain], *items: Plain, at: int) -> None:
    cache.completed({cache.listed(item) for item in items}, str(at))


def test_a_list_then_a_watch(cache: Cache[Plain], story: Story) -> None:
    """The ordinary life of an object is told as it happened."""
    list_(cache, pod(3), at=5)
    cache.changed(change("MODIFIED", pod(6)))
    cache.changed(change("DELETED", pod(7)))

    assert story.heard == ["seen a u1@3", "seen a u1@6", "removed a u1@6"]
    assert (cache.progress, len(cache.store)) == ("7", 0)


@pytest.mark.parametrize(
    ("repeated", "heard"),
    [
        pytest.param(change("ADDED", pod(6)), ["seen a u1@6"], id="the same event again"),
        pytest.param(change("MODIFIED", pod(4)), ["seen a u1@6"], id="an older version"),
        pytest.param(change("DELETED", pod(5)), ["seen a u1@6"], id="the end of an earlier life"),
        pytest.param(
            change("DELETED", pod(6)), ["seen a u1@6", "removed a u1@6"], id="an end at the same version"
        ),
        pytest.param(
            change("ADDED", pod(6, name="b")),
            ["seen a u1@6", "seen b u1@6"],
            id="another at the same version",
        ),
        pytest.param(change("ADDED", pod(4, name="b")), ["seen a u1@6"], id="one that was gone before"),
    ],
)
def test_old_news(cache: Cache[Plain], story: Story, repeated: WatchChange[Plain], heard: list[str]) -> None:
    """What was told, or was true before what was told, is not told."""
    list_(cache, at=5)
    cache.changed(change("ADDED", pod(6)))

    cache.changed(repeated)

    assert story.heard == heard


def test_an_end_is_told_once(cache: Cache[Plain], story: Story) -> None:
    """A delete that is told twice, or found missing by a list as well, is heard once."""
    list_(cache, pod(3), at=5)
    cache.changed(change("DELETED", pod(6)))
    cache.changed(change("DELETED", pod(6)))
    cache.changed(change("ADDED", pod(3)))
    list_(cache, at=8)

    assert story.heard == ["seen a u1@3", "removed a u1@3"]


def test_a_new_list_tells_only_differences(cache: Cache[Plain], story: Story) -> None:
    """After a relist, what is the same is silent, what changed is told, what is missing has gone."""
    list_(cache, pod(1, name="same"), pod(2, name="changed"), pod(3, name="missing"), at=5)
    story.heard.clear()

    list_(cache, pod(1, name="same"), pod(7, name="changed"), pod(8, name="new"), at=9)

    assert story.heard == ["seen changed u1@7", "seen new u1@8", "removed missing u1@3"]


def test_a_replaced_object_ends_and_begins(cache: Cache[Plain], story: Story) -> None:
    """Another uid under the same name is another life, also when nobody saw the end of the first."""
    list_(cache, pod(3), at=5)
    list_(cache, pod(7, uid="u2"), at=9)

    assert story.heard == ["seen a u1@3", "removed a u1@3", "seen a u2@7"]


def test_our_own_write_is_known_at_once_and_told_once(cache: Cache[Plain], story: Story) -> None:
    """The reply to a write counts; the watch's word for it is old news."""
    list_(cache, pod(3), at=5)
    cache.observe(pod(8))
    cache.changed(change("MODIFIED", pod(7)))
    cache.changed(change("MODIFIED", pod(8)))

    assert story.heard == ["seen a u1@3", "seen a u1@8"]


def test_a_list_does_not_undo_a_later_write(cache: Cache[Plain], story: Story) -> None:
    """What we wrote after the moment of a list stays, whether the list has an older version or none."""
    list_(cache, pod(3), at=5)
    cache.observe(pod(12))
    cache.observe(pod(13, name="b"))
    list_(cache, pod(6), at=10)

    assert story.heard == ["seen a u1@3", "seen a u1@12", "seen b u1@13"]


def test_a_write_before_the_first_list_stays(cache: Cache[Plain], story: Story) -> None:
    """A reply may be known before anything else is."""
    cache.observe(pod(12))
    list_(cache, at=10)

    assert story.heard == ["seen a u1@12"]


def test_a_late_reply_does_not_bring_back_the_dead(cache: Cache[Plain], story: Story) -> None:
    """A reply that arrives after the watch told the end is old news."""
    list_(cache, pod(3), at=5)
    cache.changed(change("DELETED", pod(9)))
    cache.observe(pod(8))

    assert story.heard == ["seen a u1@3", "removed a u1@3"]


def test_a_write_over_an_old_life(cache: Cache[Plain], story: Story) -> None:
    """The end of an earlier life, told after we made the object anew, does not end the new one."""
    list_(cache, pod(3), at=5)
    cache.observe(pod(9, uid="u2"))
    cache.changed(change("DELETED", pod(8)))

    assert story.heard == ["seen a u1@3", "removed a u1@3", "seen a u2@9"]


def test_a_server_that_was_set_back_is_believed(cache: Cache[Plain], story: Story) -> None:
    """A list whose versions are lower than ours, as after a restore, replaces everything."""
    list_(cache, pod(300), pod(301, name="b"), at=500)
    list_(cache, pod(2), at=5)

    assert story.heard == ["seen a u1@300", "seen b u1@301", "seen a u1@2", "removed b u1@301"]
    assert cache.progress == "5"


def test_versions_that_are_no_numbers(cache: Cache[Plain], story: Story) -> None:
    """A server with other versions is taken at its word; the very same is still recognised."""
    list_(cache, pod("x"), at=0)
    cache.reached("p")
    for version in ("y", "y", "x"):
        cache.changed(change("MODIFIED", pod(version)))
    cache.changed(change("DELETED", pod("z")))

    assert story.heard == ["seen a u1@x", "seen a u1@y", "seen a u1@x", "removed a u1@x"]


@pytest.mark.parametrize(
    ("version", "other", "expected"),
    [
        pytest.param("10", "9", True, id="numbers, not texts"),
        pytest.param("9", "9", False, id="the same is not after itself"),
        pytest.param("b", "a", True, id="other texts may be after"),
        pytest.param("a", "b", True, id="either way"),
    ],
)
def test_is_after(version: str, other: str, expected: bool) -> None:
    """Versions are compared as numbers where they are."""
    assert is_after(version, other) is expected


def test_bookmarks_never_go_back(cache: Cache[Plain]) -> None:
    """Progress only grows along a watch."""
    list_(cache, at=5)
    cache.reached("9")
    cache.reached("7")

    assert cache.progress == "9"


def test_narrow_decides_what_is_held() -> None:
    """Only what narrow returns is held; an object that it drops is told as removed."""
    cache = Cache[str](
        PODS, narrow=lambda item: item["metadata"].get("label"), indexers={"first": lambda word: word[:1]}
    )
    heard: list[InformerEvent[str]] = []
    cache.subscribe(heard.append)
    labelled = pod(6)
    labelled["metadata"]["label"] = "blue"

    cache.listed(pod(3, name="b"))
    cache.listed(labelled)
    assert cache.store.find("first", "b") == ("blue",)
    cache.changed(change("MODIFIED", pod(7)))

    assert heard == [InformerUpdate("ns/a", "blue"), InformerDelete("ns/a", "blue")]
    assert list(cache.store) == []


def test_a_change_says_what_was_before(cache: Cache[Plain]) -> None:
    """Listeners can compare with what they were told last."""
    heard: list[InformerEvent[Plain]] = []
    cache.subscribe(heard.append)
    list_(cache, pod(3), at=5)
    cache.changed(change("MODIFIED", pod(6)))

    assert heard == [InformerUpdate("ns/a", pod(3)), InformerUpdate("ns/a", pod(6), pod(3))]


def test_a_late_listener_hears_what_is_held(cache: Cache[Plain]) -> None:
    """Whoever comes later is told the present first; whoever leaves hears no more."""
    list_(cache, pod(3), pod(4, name="b"), at=5)
    story = Story()

    leave = cache.subscribe(story)
    cache.changed(change("MODIFIED", pod(6)))
    leave()
    cache.changed(change("MODIFIED", pod(7)))

    assert story.heard == ["seen a u1@3", "seen b u1@4", "seen a u1@6"]


def test_a_listener_that_fails_is_logged(cache: Cache[Plain], story: Story, logs: list[EventDict]) -> None:
    """Its bug does not keep the story from others, nor from the cache."""

    def fail(_: InformerEvent[Plain]) -> None:
        raise RuntimeError("out of cheese")

    cache.subscribe(fail)
    list_(cache, pod(3), at=5)

    assert story.heard == ["seen a u1@3"]
    assert [(log["event"], log["kind"], log["key"]) for log in logs] == [("listener.failed", "Pod", "ns/a")]


class Life:
    """A server's true history of a few objects, to be told badly."""

    def __init__(self, steps: list[tuple[str, bool]]) -> None:
        self.events: list[WatchChange[Plain]] = []
        self.states: list[dict[str, Plain]] = [{}]
        alive: dict[str, Plain] = {}
        for version, (name, delete) in enumerate(steps, start=1):
            if name in alive and delete:
                gone = pod(version, name=name, uid=alive.pop(name)["metadata"]["uid"])
                self.events.append(change("DELETED", gone))
            else:
                uid = alive[name]["metadata"]["uid"] if name in alive else f"u{version}"
                self.events.append(
                    change("MODIFIED" if name in alive else "ADDED", pod(version, name=name, uid=uid))
                )
                alive[name] = self.events[-1].object
            self.states.append(dict(alive))


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=20)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, data=st.data())
def test_however_it_is_told(steps: list[tuple[str, bool]], data: st.DataObject) -> None:
    """Lists, events, repeats of old events and own replies, in any mix, tell each life once, in order."""
    life = Life(steps)
    cache: Cache[Plain] = Cache(PODS, narrow=lambda item: item)
    heard: list[tuple[str, str, int]] = []

    def listen(event: InformerEvent[Plain]) -> None:
        meta: dict[str, Any] = event.object["metadata"]
        heard.append((meta["uid"], type(event).__name__, int(meta["resourceVersion"])))

    cache.subscribe(listen)
    told = data.draw(st.integers(0, len(steps)), label="first list at")
    list_(cache, *life.states[told].values(), at=told)
    while told < len(steps):
        match data.draw(st.sampled_from(["event", "repeat", "reply", "relist"])):
            case "event":
                cache.changed(life.events[told])
                told += 1
            case "repeat":
                cache.changed(life.events[data.draw(st.integers(0, told))]) if told else None
                told = max(told, int(cache.progress))
            case "reply":
                reply = life.events[data.draw(st.integers(0, len(steps) - 1))]
                if reply.type != "DELETED":
                    cache.observe(reply.object)
            case _:
                told = data.draw(st.integers(told, len(steps)), label="relist at")
                list_(cache, *life.states[told].values(), at=told)

    assert {key: dict(item) for key, item in cache.store.items()} == {
        f"ns/{name}": item for name, item in life.states[-1].items()
    }
    for uid in {uid for uid, _, _ in heard}:
        versions = [version for one, kind, version in heard if one == uid and kind == "InformerUpdate"]
        ends = [kind for one, kind, _ in heard if one == uid]
        assert versions == sorted(set(versions)), "each version once, in order"
        assert ends.count("InformerDelete") <= 1, "one end"
        assert "InformerDelete" not in ends[:-1], "nothing after the end"
