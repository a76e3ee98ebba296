"""Deletion: finalizers, grace, preconditions."""

import re

import pytest

from tests.contract.kubernetes.api import Api, Object, done
from tests.contract.kubernetes.objects import configmap, deployment, pod, secret

WAIT = ["x.io/wait"]


@pytest.fixture
def waiting(api: Api) -> Object:
    """A ConfigMap that was deleted and waits for its finalizer."""
    api.make("configmaps", configmap("a", {"x": "1"}, finalizers=WAIT))
    return done(api.delete("configmaps", "a"))


def release(api: Api, name: str = "a") -> Object:
    return done(api.patch("configmaps", name, {"metadata": {"finalizers": None}}))


def test_a_finalizer_keeps_an_object(api: Api, waiting: Object) -> None:
    """A delete marks the object, says when, and returns it."""
    assert waiting["kind"] == "ConfigMap"
    assert re.fullmatch(r"\d{4}-.*Z", waiting["metadata"]["deletionTimestamp"])
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 0
    assert api.read("configmaps", "a") == waiting
    release(api)


def test_the_last_finalizer_lets_go(api: Api, waiting: Object) -> None:
    """Removing the last finalizer deletes, and the answer is the last state."""
    last = release(api)

    assert last["metadata"]["uid"] == waiting["metadata"]["uid"]
    assert api.gone("configmaps", "a")


def test_a_delete_bumps_the_generation(api: Api) -> None:
    """Asking for deletion is a change of what is wanted, for kinds that count."""
    made = api.make("deployments", {**deployment("a", 0), "metadata": {"name": "a", "finalizers": WAIT}})

    marked = done(api.delete("deployments", "a", propagationPolicy="Background"))

    assert marked["metadata"]["generation"] == made["metadata"]["generation"] + 1
    done(api.patch("deployments", "a", {"metadata": {"finalizers": None}}))


@pytest.mark.usefixtures("waiting")
def test_a_second_delete_changes_nothing(api: Api) -> None:
    """What is marked stays marked as it was."""
    before = api.read("configmaps", "a")

    again = done(api.delete("configmaps", "a"))

    assert again["metadata"]["deletionTimestamp"] == before["metadata"]["deletionTimestamp"]
    release(api)


@pytest.mark.usefixtures("waiting")
def test_what_is_marked_can_be_changed(api: Api) -> None:
    """Everything but new finalizers is allowed until the end."""
    assert done(api.patch("configmaps", "a", {"data": {"x": "2"}}))["data"] == {"x": "2"}
    release(api)


@pytest.mark.usefixtures("waiting")
def test_no_new_finalizers_after_the_mark(api: Api) -> None:
    """A finalizer that comes too late is refused."""
    answer = api.patch("configmaps", "a", {"metadata": {"finalizers": [*WAIT, "x.io/late"]}})

    assert (answer.status, answer.reason) == (422, "Invalid")
    complaint = (
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers"
        ' []string{"x.io/late"}'
    )
    assert ("metadata.finalizers", "FieldValueForbidden", complaint) in answer.causes
    release(api)


@pytest.mark.usefixtures("waiting")
def test_the_mark_cannot_be_removed(api: Api) -> None:
    """A write that leaves out deletionTimestamp does not undo the delete."""
    stored = done(api.replace("configmaps", configmap("a", finalizers=WAIT)))

    assert "deletionTimestamp" in stored["metadata"]
    release(api)


def test_the_mark_cannot_be_set_by_hand(api: Api) -> None:
    """Only a DELETE marks."""
    made = api.make(
        "configmaps", configmap("a", deletionTimestamp="2020-01-01T00:00:00Z", deletionGracePeriodSeconds=3)
    )

    assert "deletionTimestamp" not in made["metadata"]
    assert "deletionGracePeriodSeconds" not in made["metadata"]


@pytest.mark.usefixtures("waiting")
def test_the_name_is_taken_until_the_end(api: Api) -> None:
    """What is marked still exists."""
    answer = api.create("configmaps", configmap("a"))

    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'object is being deleted: configmaps "a" already exists'
    release(api)


@pytest.mark.usefixtures("waiting")
def test_the_watch_tells_mark_and_end(api: Api) -> None:
    """The mark is a modification, the end a deletion."""
    start = done(api.find("configmaps"))["metadata"]["resourceVersion"]
    api.make("configmaps", configmap("b", finalizers=WAIT))
    done(api.delete("configmaps", "b"))
    release(api, "b")

    with api.watch("configmaps", resourceVersion=start, fieldSelector="metadata.name=b") as watch:
        assert watch.take(3) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]
    release(api)


@pytest.mark.parametrize("name", ["nodots", "UPPER/x", "a/b/c", "x.io/"])
def test_bad_finalizers(api: Api, name: str) -> None:
    """Finalizers are qualified names."""
    answer = api.create("configmaps", configmap("a", finalizers=[name]))

    assert (answer.status, answer.reason) == (422, "Invalid")


def test_a_uid_precondition_that_fails(api: Api) -> None:
    """A delete may insist on the object that was meant."""
    api.make("configmaps", configmap("a"))
    other = "11111111-1111-4111-8111-111111111111"

    answer = api.delete("configmaps", "a", {"preconditions": {"uid": other}})

    assert (answer.status, answer.reason) == (409, "Conflict")
    assert f"the UID in the precondition ({other}) does not match the UID in record" in answer.message
    assert not api.gone("configmaps", "a")


def test_a_version_precondition_that_fails(api: Api) -> None:
    """A delete may insist on the version that was read."""
    made = api.make("configmaps", configmap("a"))
    done(api.patch("configmaps", "a", {"data": {"x": "1"}}))
    version = made["metadata"]["resourceVersion"]

    answer = api.delete("configmaps", "a", {"preconditions": {"resourceVersion": version}})

    assert (answer.status, answer.reason) == (409, "Conflict")
    assert (
        f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record"
        in (answer.message)
    )


def test_preconditions_that_hold(api: Api) -> None:
    """A delete whose preconditions hold is done."""
    made = api.make("configmaps", configmap("a"))["metadata"]
    conditions = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}

    done(api.delete("configmaps", "a", {"preconditions": conditions}))

    assert api.gone("configmaps", "a")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"{", 400, id="not JSON"),
        pytest.param({"kind": "Pod", "apiVersion": "v1"}, 400, id="another kind"),
        pytest.param({"propagationPolicy": "Sideways"}, 422, id="an unknown propagation"),
        pytest.param({"gracePeriodSeconds": -1}, 200, id="a negative grace"),
        pytest.param(
            {"propagationPolicy": "Background", "orphanDependents": True}, 422, id="two ways to propagate"
        ),
        pytest.param({"kind": "DeleteOptions", "apiVersion": "v1"}, 200, id="options that say what they are"),
        pytest.param({}, 200, id="no options"),
    ],
)
def test_options_of_a_delete(api: Api, body: object, status: int) -> None:
    """The body of a DELETE is checked."""
    api.make("configmaps", configmap("a"))

    assert api.delete("configmaps", "a", body).status == status


def test_foreground_leaves_a_finalizer(api: Api) -> None:
    """Foreground deletion is a finalizer that a controller removes."""
    api.make("configmaps", configmap("a", finalizers=WAIT))

    marked = done(api.delete("configmaps", "a", {"propagationPolicy": "Foreground"}))

    assert "foregroundDeletion" in marked["metadata"]["finalizers"]
    release(api)


def test_orphan_leaves_a_finalizer(api: Api) -> None:
    """Orphaning is a finalizer too."""
    api.make("configmaps", configmap("a", finalizers=WAIT))

    marked = done(api.delete("configmaps", "a", propagationPolicy="Orphan"))

    assert "orphan" in marked["metadata"]["finalizers"]
    release(api)


def test_an_unscheduled_pod_goes_at_once(api: Api) -> None:
    """Without a node there is nobody to wait for."""
    api.make("pods", pod("a", spec={"terminationGracePeriodSeconds": 30}))

    done(api.delete("pods", "a"))

    assert api.gone("pods", "a")


def test_a_pod_on_a_node_has_time(api: Api) -> None:
    """With a node, the pod's own grace is the default, and the mark is set that far ahead."""
    api.make("pods", pod("a", spec={"nodeName": "somewhere", "terminationGracePeriodSeconds": 30}))

    marked = done(api.delete("pods", "a"))["metadata"]

    assert marked["deletionGracePeriodSeconds"] == 30
    assert marked["deletionTimestamp"] > marked["creationTimestamp"]
    assert not api.gone("pods", "a")
    done(api.delete("pods", "a", gracePeriodSeconds=0))


def test_grace_can_be_given(api: Api) -> None:
    """The delete may say how long."""
    api.make("pods", pod("a", spec={"nodeName": "somewhere", "terminationGracePeriodSeconds": 30}))

    assert done(api.delete("pods", "a", gracePeriodSeconds=7))["metadata"]["deletionGracePeriodSeconds"] == 7
    done(api.delete("pods", "a", gracePeriodSeconds=0))


def test_grace_can_only_shrink(api: Api) -> None:
    """A second delete may shorten the time, not lengthen it."""
    api.make("pods", pod("a", spec={"nodeName": "somewhere", "terminationGracePeriodSeconds": 30}))
    done(api.delete("pods", "a", gracePeriodSeconds=20))

    longer = done(api.delete("pods", "a", gracePeriodSeconds=25))["metadata"]["deletionGracePeriodSeconds"]
    shorter = done(api.delete("pods", "a", gracePeriodSeconds=10))["metadata"]["deletionGracePeriodSeconds"]

    assert (longer, shorter) == (20, 10)
    done(api.delete("pods", "a", gracePeriodSeconds=0))


def test_grace_zero_ends_a_pod(api: Api) -> None:
    """Nothing waits when told not to; this is also how a kubelet confirms the end."""
    api.make("pods", pod("a", spec={"nodeName": "somewhere", "terminationGracePeriodSeconds": 30}))
    done(api.delete("pods", "a"))

    done(api.delete("pods", "a", gracePeriodSeconds=0))

    assert api.gone("pods", "a")


def test_a_finished_pod_goes_at_once(api: Api) -> None:
    """A pod that has ended needs no grace."""
    api.make("pods", pod("a", spec={"nodeName": "somewhere", "terminationGracePeriodSeconds": 30}))
    done(api.patch("pods", "a", {"status": {"phase": "Succeeded"}}, sub="status"))

    done(api.delete("pods", "a"))

    assert api.gone("pods", "a")


def test_a_finalizer_outlasts_grace(api: Api) -> None:
    """A pod with a finalizer stays after its grace is over."""
    api.make("pods", pod("a", finalizers=WAIT))

    done(api.delete("pods", "a", gracePeriodSeconds=0))

    assert not api.gone("pods", "a")
    done(api.patch("pods", "a", {"metadata": {"finalizers": None}}))
    assert api.gone("pods", "a")


def test_delete_collection_respects_finalizers(api: Api) -> None:
    """Deleting many marks those that wait and removes the others."""
    api.make("secrets", secret("free"))
    api.make("secrets", secret("held", finalizers=WAIT))

    done(api.delete_all("secrets"))

    assert api.names("secrets") == ["held"]
    done(api.patch("secrets", "held", {"metadata": {"finalizers": None}}))
