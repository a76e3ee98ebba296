"""The scheduler: in which words pods are refused."""

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.machines import DEFAULT, join, schedule
from tests.contract.kubernetes.objects import container
from tests.contract.kubernetes.rules import beside, expression, require, spread

pytestmark = pytest.mark.usefixtures("empty_cluster")

NO_HELP = (
    " no new claims to deallocate, preemption: 0/1 nodes are available:"
    " 1 Preemption is not helpful for scheduling."
)

NO_VICTIMS = (
    " no new claims to deallocate, preemption: 0/1 nodes are available:"
    " 1 No preemption victims found for incoming pod."
)


def test_no_nodes(api: Api) -> None:
    """Without any node the sentence is a short one."""
    assert schedule(api, "a") == "no nodes available to schedule pods"


def test_the_unschedulable_condition(api: Api) -> None:
    """A refused pod carries reason and sentence in PodScheduled."""
    schedule(api, "a")

    [condition] = api.read("pods", "a")["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "Unschedulable",
    )


def test_refusals_are_events(api: Api) -> None:
    """A refusal is also a warning event about the pod."""
    join(api, "n")
    message = schedule(api, "a", {"nodeSelector": {"no": "where"}})

    found = eventually(lambda: done(api.find("events", fieldSelector="reason=FailedScheduling"))["items"])

    assert (found[0]["type"], found[0]["message"]) == ("Warning", message)
    assert found[0]["involvedObject"]["name"] == "a"
    assert found[0]["reportingComponent"] == DEFAULT


def test_bindings_are_events(api: Api) -> None:
    """A binding is an event about the pod."""
    node = join(api, "n")
    schedule(api, "a")

    found = eventually(lambda: done(api.find("events", fieldSelector="reason=Scheduled"))["items"])

    assert found[0]["message"] == f"Successfully assigned {api.namespace}/a to {node}"


REFUSALS: list[tuple[str, Object, str, bool]] = [
    ("cpu", {"containers": [container(requests={"cpu": "5"})]}, "1 Insufficient cpu", False),
    ("memory", {"containers": [container(requests={"memory": "9Gi"})]}, "1 Insufficient memory", False),
    (
        "both",
        {"containers": [container(requests={"cpu": "5", "memory": "9Gi"})]},
        "1 Insufficient cpu, 1 Insufficient memory",
        False,
    ),
    (
        "a resource that the node does not have",
        {"containers": [container(resources={"limits": {"x.io/gpu": "1"}})]},
        "1 Insufficient x.io/gpu",
        False,
    ),
    (
        "node selector",
        {"nodeSelector": {"no": "where"}},
        "1 node(s) didn't match Pod's node affinity/selector",
        False,
    ),
    (
        "node affinity",
        require(expression("zone", "In", "9")),
        "1 node(s) didn't match Pod's node affinity/selector",
        False,
    ),
    (
        "pod affinity",
        beside("podAffinity", {"q": "r"}),
        "1 node(s) didn't match pod affinity rules",
        False,
    ),
    (
        "spread over a label that no node has",
        spread({"s": "1"}, key="nokey"),
        "1 node(s) didn't match pod topology spread constraints (missing required label)",
        False,
    ),
]


@pytest.mark.parametrize(
    ("spec", "reason"), [pytest.param(spec, reason, id=name) for name, spec, reason, _ in REFUSALS]
)
def test_refusals_in_words(api: Api, spec: Object, reason: str) -> None:
    """Each filter has its words, and preemption has the last one."""
    join(api, "n", labels={"zone": "1"})

    assert schedule(api, "a", spec) == f"0/1 nodes are available: {reason}.{NO_HELP}"


def test_a_taint_in_words(api: Api) -> None:
    """A taint that is not tolerated is counted."""
    join(api, "n", spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})

    assert schedule(api, "a") == f"0/1 nodes are available: 1 node(s) had untolerated taint(s).{NO_HELP}"


def test_a_cordon_in_words(api: Api) -> None:
    """A cordoned node is unschedulable, not tainted."""
    join(api, "n", spec={"unschedulable": True})

    assert schedule(api, "a") == f"0/1 nodes are available: 1 node(s) were unschedulable.{NO_HELP}"


def test_a_node_that_is_full_in_words(api: Api) -> None:
    """Where room was taken by others of the same priority, there are no victims."""
    join(api, "n", cpu="2")
    schedule(api, "first", requests={"cpu": "2"})

    assert (
        schedule(api, "a", requests={"cpu": "1"})
        == f"0/1 nodes are available: 1 Insufficient cpu.{NO_VICTIMS}"
    )


def test_too_many_pods_in_words(api: Api) -> None:
    """A node takes only so many pods."""
    join(api, "n", pods="1")
    schedule(api, "first")

    assert schedule(api, "a") == f"0/1 nodes are available: 1 Too many pods.{NO_VICTIMS}"


def test_anti_affinity_in_words(api: Api) -> None:
    """Two that avoid each other: the second names its own rule."""
    join(api, "n")
    rule = beside("podAntiAffinity", {"a": "b"})
    schedule(api, "first", rule, a="b")

    assert schedule(api, "second", rule, a="b") == (
        f"0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.{NO_VICTIMS}"
    )


def test_anti_affinity_of_others_in_words(api: Api) -> None:
    """One that is avoided: it names the rules of those that are there."""
    join(api, "n")
    schedule(api, "first", beside("podAntiAffinity", {"a": "b"}), a="c")

    assert schedule(api, "second", a="b") == (
        f"0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.{NO_VICTIMS}"
    )


def test_spread_in_words(api: Api) -> None:
    """Where the skew would grow too large, the constraint is named."""
    join(api, "one", labels={"zone": "1"})
    join(api, "two", labels={"zone": "2"}, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    schedule(api, "first", spread({"s": "1"}), s="1")

    message = schedule(api, "second", spread({"s": "1"}), s="1")

    assert message.startswith(
        "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints,"
        " 1 node(s) had untolerated taint(s)."
    )


def test_ports_in_words(api: Api) -> None:
    """A port of the host can be had once."""
    join(api, "n")
    spec = {"containers": [container(ports=[{"containerPort": 80, "hostPort": 8080}])]}
    schedule(api, "first", spec)

    assert schedule(api, "second", spec) == (
        f"0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.{NO_VICTIMS}"
    )


def test_reasons_are_counted_and_sorted(api: Api) -> None:
    """Nodes with the same reason are counted together; reasons come in the order of their words."""
    join(api, "a", labels={"zone": "1"})
    join(api, "b", labels={"zone": "1"})
    join(api, "c", spec={"unschedulable": True})
    join(api, "d", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})

    message = schedule(api, "p", {"nodeSelector": {"zone": "2"}})

    assert message == (
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable,"
        " 2 node(s) didn't match Pod's node affinity/selector."
        " no new claims to deallocate, preemption: 0/4 nodes are available:"
        " 4 Preemption is not helpful for scheduling."
    )


def test_a_claim_that_is_not_there_in_words(api: Api) -> None:
    """A pod waits for its volume claim to exist."""
    join(api, "n")
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "nope"}}]

    message = schedule(api, "a", {"volumes": volumes})

    assert message.startswith('0/1 nodes are available: persistentvolumeclaim "nope" not found.')


def test_a_claim_that_is_not_bound_in_words(api: Api) -> None:
    """A claim of a class that binds at once must be bound first."""
    join(api, "n")
    api.make("storageclasses", {"metadata": {"name": api.unique}, "provisioner": "x.io/none"})
    claim = {
        "storageClassName": api.unique,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    api.make("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim})

    message = schedule(api, "a", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]})

    assert message.startswith("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.")
