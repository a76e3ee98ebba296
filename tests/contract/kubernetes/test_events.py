"""Events and leases: two faces of one kind, and moments to the microsecond."""

from tests.contract.kubernetes.api import Api, Object, done
from tests.contract.kubernetes.objects import lease

NEW = "/apis/events.k8s.io/v1/namespaces/{}/events"
THEN = "2020-01-02T03:04:05.000006Z"


def about(api: Api, name: str = "a") -> Object:
    return {"kind": "Pod", "name": name, "namespace": api.namespace}


def test_an_event_of_the_old_kind_is_seen_as_the_new(api: Api) -> None:
    """What is written to the core group is read in events.k8s.io, under the new names of its fields."""
    body = {"involvedObject": about(api), "reason": "Why", "message": "What", "type": "Normal", "count": 2}
    api.make("events", {"metadata": {"name": "e"}, **body, "source": {"component": "me"}})

    found = done(api.send("GET", f"{NEW.format(api.namespace)}/e"))

    assert found["apiVersion"] == "events.k8s.io/v1"
    assert (found["regarding"]["name"], found["note"]) == ("a", "What")
    assert (found["deprecatedCount"], found["deprecatedSource"]) == (2, {"component": "me"})


def test_an_event_of_the_new_kind_is_seen_as_the_old(api: Api) -> None:
    """And the other way round."""
    body = {
        "metadata": {"name": "e"},
        "eventTime": THEN,
        "regarding": about(api),
        "reason": "Why",
        "note": "What",
        "action": "Doing",
        "type": "Warning",
        "reportingController": "x.io/me",
        "reportingInstance": "me-1",
    }
    done(api.send("POST", NEW.format(api.namespace), body))

    found = api.read("events", "e")

    assert (found["involvedObject"]["name"], found["message"]) == ("a", "What")
    assert (found["eventTime"], found["reportingComponent"], found["action"]) == (THEN, "x.io/me", "Doing")


def test_an_event_of_the_new_kind_says_who_reports(api: Api) -> None:
    """The new kind is stricter."""
    body = {"metadata": {"name": "e"}, "eventTime": THEN, "regarding": about(api), "type": "Normal"}

    answer = api.send("POST", NEW.format(api.namespace), body)

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert {"reportingInstance", "action", "reason"} <= {field for field, _, _ in answer.causes}


def test_an_event_belongs_to_the_namespace_of_its_subject(api: Api) -> None:
    """An event about something elsewhere is refused."""
    subject = {"kind": "Pod", "name": "a", "namespace": "default"}

    answer = api.create("events", {"metadata": {"name": "e"}, "involvedObject": subject})

    assert answer.status == 422
    assert answer.causes[0][0] == "involvedObject.namespace"


def test_events_are_selected_by_their_subject(api: Api) -> None:
    """What ``kubectl describe`` asks for."""
    for name in "ab":
        api.make(
            "events",
            {"metadata": {"name": f"e-{name}"}, "involvedObject": about(api, name), "type": "Normal"},
        )

    selector = f"involvedObject.name=b,involvedObject.namespace={api.namespace},involvedObject.kind=Pod"

    assert api.names("events", fieldSelector=selector) == ["e-b"]


def test_moments_of_a_lease_are_kept_to_the_microsecond(api: Api) -> None:
    """A lease is renewed more often than once a second."""
    body = lease("l")
    body["spec"].update(renewTime=THEN)

    assert api.make("leases", body)["spec"]["renewTime"] == THEN


def test_moments_of_a_lease_must_have_microseconds(api: Api) -> None:
    """Less is a bad request, even if it is nothing but zeros."""
    body = lease("l")
    body["spec"].update(renewTime="2020-01-02T03:04:05Z")

    answer = api.create("leases", body)

    assert (answer.status, answer.reason) == (400, "BadRequest")


def test_two_who_want_the_lease(api: Api) -> None:
    """Of two that renew from the same version, one wins."""
    made = api.make("leases", lease("l"))
    one = {**made, "spec": {**made["spec"], "holderIdentity": "one"}}
    two = {**made, "spec": {**made["spec"], "holderIdentity": "two"}}

    assert [api.replace("leases", body).status for body in (one, two)] == [200, 409]


def test_a_lease_has_a_positive_duration(api: Api) -> None:
    """A lease of no time is none."""
    body = lease("l")
    body["spec"]["leaseDurationSeconds"] = 0

    answer = api.create("leases", body)

    assert answer.causes[0][:2] == ("spec.leaseDurationSeconds", "FieldValueInvalid")
