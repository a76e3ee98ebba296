"""The scheduler: where pods go, and in which words they are refused."""

from typing import Any

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.machines import DEFAULT, join, named, schedule, verdict
from tests.contract.kubernetes.objects import container, pod

pytestmark = pytest.mark.usefixtures("empty_cluster")

HOSTNAME = "kubernetes.io/hostname"
NO_HELP = " no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
NO_VICTIMS = (
    " no new claims to deallocate, preemption: 0/1 nodes are available:"
    " 1 No preemption victims found for incoming pod."
)


def require(*expressions: Object) -> Object:
    """Return a required node affinity with one term."""
    terms = [{"matchExpressions": list(expressions)}]
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    }


def expression(key: str, operator: str, *values: str) -> Object:
    """Return one requirement on labels."""
    found: Object = {"key": key, "operator": operator}
    return {**found, "values": list(values)} if values else found


def beside(kind: str, labels: dict[str, str], key: str = HOSTNAME) -> Object:
    """Return a required pod affinity or anti-affinity."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(labels: dict[str, str], key: str = "zone", when: str = "DoNotSchedule", **fields: Any) -> Object:
    """Return a topology spread constraint of skew one."""
    found = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": labels},
    }
    return {"topologySpreadConstraints": [{**found, **fields}]}


def test_no_nodes(api: Api) -> None:
    """Without any node the sentence is a short one."""
    assert schedule(api, "a") == "no nodes available to schedule pods"


def test_a_pod_gets_the_only_node(api: Api) -> None:
    """A pod that fits is bound, and its condition says so."""
    join(api, "n")

    assert schedule(api, "a", requests={"cpu": "1"}) == "n"
    conditions = {each["type"]: each["status"] for each in api.read("pods", "a")["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


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


def test_a_pod_waits_for_a_node(api: Api) -> None:
    """A refused pod is tried again when a node comes that could help."""
    schedule(api, "a")

    join(api, "n")

    assert eventually(lambda: verdict(api, "a") == "n")


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


def test_a_gated_pod_is_not_looked_at(api: Api) -> None:
    """A gate holds a pod back until it is removed."""
    join(api, "n")
    message = schedule(api, "a", {"schedulingGates": [{"name": "x.io/wait"}]})

    done(api.patch("pods", "a", {"spec": {"schedulingGates": None}}))

    assert message == "Scheduling is blocked due to non-empty scheduling gates"
    assert eventually(lambda: verdict(api, "a") == "n")


def test_a_pod_of_another_scheduler_is_not_looked_at(api: Api) -> None:
    """Pods name their scheduler."""
    join(api, "n")
    api.make("pods", pod("other"))
    schedule(api, "mine")

    assert verdict(api, "other") == ""


def test_a_selector_picks_its_node(api: Api) -> None:
    """Labels decide."""
    for short in "ab":
        join(api, short, labels={"pick": short})

    assert schedule(api, "p", {"nodeSelector": {"pick": "b"}}) == "b"


@pytest.mark.parametrize(
    ("requirement", "picked"),
    [
        pytest.param(expression("size", "In", "2", "3"), "b", id="In"),
        pytest.param(expression("size", "NotIn", "2"), "a", id="NotIn"),
        pytest.param(expression("extra", "Exists"), "b", id="Exists"),
        pytest.param(expression("extra", "DoesNotExist"), "a", id="DoesNotExist"),
        pytest.param(expression("size", "Gt", "1"), "b", id="Gt"),
        pytest.param(expression("size", "Lt", "2"), "a", id="Lt"),
    ],
)
def test_operators_of_node_affinity(api: Api, requirement: Object, picked: str) -> None:
    """Every operator of a node affinity."""
    join(api, "a", labels={"size": "1"})
    join(api, "b", labels={"size": "2", "extra": ""})

    assert schedule(api, "p", require(requirement)) == picked


def test_terms_of_an_affinity_are_alternatives(api: Api) -> None:
    """One term that matches is enough."""
    join(api, "a", labels={"size": "1"})
    terms = [{"matchExpressions": [expression("size", "In", wanted)]} for wanted in ("7", "1")]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }

    assert schedule(api, "p", {"affinity": affinity}) == "a"


def test_an_affinity_to_a_name(api: Api) -> None:
    """matchFields picks a node by its name, as a DaemonSet does."""
    for short in "ab":
        join(api, short)
    term = {"matchFields": [expression("metadata.name", "In", named(api, "b"))]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }

    assert schedule(api, "p", {"affinity": affinity}) == "b"


def test_a_preference_decides_between_equals(api: Api) -> None:
    """A preferred affinity is followed where it can be."""
    for short in "abc":
        join(api, short, labels={"pick": short})
    preference = {"matchExpressions": [expression("pick", "In", "b")]}
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": preference}]
        }
    }

    assert schedule(api, "p", {"affinity": affinity}) == "b"


def test_a_preference_gives_way(api: Api) -> None:
    """A preference that nothing meets is no obstacle."""
    join(api, "a")
    preference = {"matchExpressions": [expression("pick", "In", "none")]}
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": preference}]
        }
    }

    assert schedule(api, "p", {"affinity": affinity}) == "a"


def test_the_emptier_node_is_chosen(api: Api) -> None:
    """Among equals, the one with more room left wins."""
    join(api, "full")
    schedule(
        api, "first", {"nodeSelector": {HOSTNAME: named(api, "full")}}, requests={"cpu": "3", "memory": "6Gi"}
    )
    join(api, "free")

    assert schedule(api, "p", requests={"cpu": "500m", "memory": "1Gi"}) == "free"


@pytest.mark.parametrize(
    ("toleration", "placed"),
    [
        pytest.param(
            {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True, id="exactly"
        ),
        pytest.param({"key": "k", "operator": "Exists"}, True, id="any value and effect"),
        pytest.param({"operator": "Exists"}, True, id="everything"),
        pytest.param({"key": "k", "operator": "Equal", "value": "w"}, False, id="another value"),
        pytest.param({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False, id="another effect"),
        pytest.param({"key": "x", "operator": "Exists"}, False, id="another key"),
    ],
)
def test_tolerations(api: Api, toleration: Object, placed: bool) -> None:
    """A taint keeps out whoever does not tolerate it."""
    join(api, "n", spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})

    assert (schedule(api, "p", {"tolerations": [toleration]}) == "n") is placed


def test_a_soft_taint_is_avoided(api: Api) -> None:
    """PreferNoSchedule is followed where it can be."""
    join(api, "soft", spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})
    join(api, "plain")

    assert schedule(api, "p") == "plain"


def test_a_soft_taint_gives_way(api: Api) -> None:
    """PreferNoSchedule alone keeps nobody out."""
    join(api, "soft", spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})

    assert schedule(api, "p") == "soft"


def test_affinity_keeps_pods_together(api: Api) -> None:
    """A pod goes where those are that it wants to be with."""
    for short in "abc":
        join(api, short)
    first = schedule(api, "first", app="x")

    assert schedule(api, "second", beside("podAffinity", {"app": "x"})) == first


def test_affinity_to_itself_is_no_deadlock(api: Api) -> None:
    """The first of a group that wants to be together may go anywhere."""
    join(api, "a")

    assert schedule(api, "first", beside("podAffinity", {"app": "x"}), app="x") == "a"


def test_anti_affinity_keeps_pods_apart(api: Api) -> None:
    """Each goes to another node."""
    for short in "abc":
        join(api, short)
    rule = beside("podAntiAffinity", {"app": "x"})

    places = {schedule(api, f"p{number}", rule, app="x") for number in range(3)}

    assert places == {"a", "b", "c"}


def test_anti_affinity_by_zone(api: Api) -> None:
    """The topology key decides what apart means."""
    for short, zone in (("a", "1"), ("b", "1"), ("c", "2")):
        join(api, short, labels={"zone": zone})
    rule = beside("podAntiAffinity", {"app": "x"}, key="zone")
    first = schedule(api, "p0", rule, app="x")
    second = schedule(api, "p1", rule, app="x")
    third = schedule(api, "p2", rule, app="x")

    assert {first, second} & {"c"}
    assert "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules." in third


def test_affinity_across_namespaces(api: Api) -> None:
    """Pods of other namespaces count only when they are named."""
    join(api, "a")
    other = api.make("namespaces", {"metadata": {"name": f"{api.unique}-b"}})["metadata"]["name"]
    body = pod("there", spec={"nodeName": named(api, "a")}, labels={"app": "x"})
    done(api.send("POST", api.path("pods", namespace=other), body))
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOSTNAME}
    own = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    wide = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "namespaces": [other]}]}
    }

    refused = schedule(api, "own", {"affinity": own})
    placed = schedule(api, "wide", {"affinity": wide})

    assert "didn't match pod affinity rules" in refused
    assert placed == "a"


def test_spread_is_even(api: Api) -> None:
    """Four pods over two zones are two and two."""
    for short, zone in (("a", "1"), ("b", "2")):
        join(api, short, labels={"zone": zone})

    places = [schedule(api, f"p{number}", spread({"s": "1"}), s="1") for number in range(4)]

    assert sorted(places) == ["a", "a", "b", "b"]


def test_a_soft_spread_gives_way(api: Api) -> None:
    """ScheduleAnyway prefers, and no more."""
    join(api, "a", labels={"zone": "1"})

    places = [
        schedule(api, f"p{number}", spread({"s": "1"}, when="ScheduleAnyway"), s="1") for number in range(3)
    ]

    assert places == ["a", "a", "a"]


def test_min_domains(api: Api) -> None:
    """With fewer zones than asked for, the smallest count is taken as none."""
    join(api, "a", labels={"zone": "1"})

    first = schedule(api, "p0", spread({"s": "1"}, minDomains=2), s="1")
    second = schedule(api, "p1", spread({"s": "1"}, minDomains=2), s="1")

    assert first == "a"
    assert "didn't match pod topology spread constraints" in second


@pytest.mark.parametrize(("policy", "placed"), [("Honor", True), ("Ignore", False)])
def test_spread_and_taints(api: Api, policy: str, placed: bool) -> None:
    """Whether a zone behind a taint counts is up to nodeTaintsPolicy."""
    join(api, "a", labels={"zone": "1"})
    join(api, "b", labels={"zone": "2"}, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    rule = spread({"s": "1"}, nodeTaintsPolicy=policy)
    schedule(api, "p0", rule, s="1")

    assert (schedule(api, "p1", rule, s="1") == "a") is placed


@pytest.mark.parametrize(("policy", "placed"), [("Honor", True), ("Ignore", False)])
def test_spread_and_affinity(api: Api, policy: str, placed: bool) -> None:
    """Whether a zone that the pod cannot use counts is up to nodeAffinityPolicy."""
    join(api, "a", labels={"zone": "1", "mine": "yes"})
    join(api, "b", labels={"zone": "2"})
    rule = {**spread({"s": "1"}, nodeAffinityPolicy=policy), "nodeSelector": {"mine": "yes"}}
    schedule(api, "p0", rule, s="1")

    assert (schedule(api, "p1", rule, s="1") == "a") is placed


def test_spread_of_one_revision(api: Api) -> None:
    """matchLabelKeys counts only pods that share the value of a label."""
    for short, zone in (("a", "1"), ("b", "2")):
        join(api, short, labels={"zone": zone})
    rule = spread({"s": "1"}, matchLabelKeys=["rev"])
    old = {schedule(api, f"old{number}", rule, s="1", rev="1") for number in range(2)}
    new = {schedule(api, f"new{number}", rule, s="1", rev="2") for number in range(2)}

    assert old == new == {"a", "b"}


def test_requests_of_init_containers_count(api: Api) -> None:
    """The largest init container counts where it is larger than all others together."""
    join(api, "n", cpu="2")

    message = schedule(
        api, "p", {"initContainers": [container("init", requests={"cpu": "3"})]}, requests={"cpu": "1"}
    )

    assert "1 Insufficient cpu" in message


def test_sidecars_count_beside_the_others(api: Api) -> None:
    """An init container that stays counts as long as the pod lives."""
    join(api, "n", cpu="2")
    sidecar = {**container("side", requests={"cpu": "1500m"}), "restartPolicy": "Always"}

    message = schedule(api, "p", {"initContainers": [sidecar]}, requests={"cpu": "1"})

    assert "1 Insufficient cpu" in message


def test_overhead_counts(api: Api) -> None:
    """What a runtime class adds is part of the request."""
    join(api, "n", cpu="2")
    body = {"metadata": {"name": api.unique}, "handler": "x", "overhead": {"podFixed": {"cpu": "1500m"}}}
    api.make("/apis/node.k8s.io/v1/runtimeclasses", body)
    spec = {"schedulerName": DEFAULT, "runtimeClassName": api.unique}

    def refused() -> str:
        answer = api.create("pods", pod("p", spec=spec, requests={"cpu": "1"}))
        return "made" if answer.status == 201 else ""

    assert eventually(refused)
    assert "1 Insufficient cpu" in eventually(lambda: verdict(api, "p"))


def test_finished_pods_take_no_room(api: Api) -> None:
    """Room comes back when a pod has ended."""
    join(api, "n", cpu="1")
    schedule(api, "first", requests={"cpu": "1"})
    schedule(api, "second", requests={"cpu": "1"})

    done(api.patch("pods", "first", {"status": {"phase": "Succeeded"}}, sub="status"))

    assert eventually(lambda: verdict(api, "second") == "n")


def test_a_deleted_pod_makes_room(api: Api) -> None:
    """Room comes back when a pod is gone."""
    join(api, "n", cpu="1")
    schedule(api, "first", requests={"cpu": "1"})
    schedule(api, "second", requests={"cpu": "1"})

    done(api.delete("pods", "first", gracePeriodSeconds=0))

    assert eventually(lambda: verdict(api, "second") == "n")


def test_an_uncordoned_node_is_used(api: Api) -> None:
    """A pod that waits is tried again when a cordon is lifted."""
    name = join(api, "n", spec={"unschedulable": True})
    schedule(api, "p")

    done(api.patch("nodes", name, {"spec": {"unschedulable": None}}))

    assert eventually(lambda: verdict(api, "p") == "n")


def test_a_label_that_comes_later(api: Api) -> None:
    """A pod that waits is tried again when a node gets the label."""
    name = join(api, "n")
    schedule(api, "p", {"nodeSelector": {"late": "yes"}})

    done(api.patch("nodes", name, {"metadata": {"labels": {"late": "yes"}}}))

    assert eventually(lambda: verdict(api, "p") == "n")


def test_higher_priority_preempts(api: Api) -> None:
    """A pod of higher priority takes the place of one of lower."""
    join(api, "n", cpu="1")
    api.make("priorityclasses", {"metadata": {"name": api.unique}, "value": 1000})
    schedule(api, "low", {"terminationGracePeriodSeconds": 30}, requests={"cpu": "1"})

    api.make(
        "pods",
        pod("high", spec={"schedulerName": DEFAULT, "priorityClassName": api.unique}, requests={"cpu": "1"}),
    )

    victim = eventually(lambda: _going(api, "low"))
    assert eventually(lambda: api.read("pods", "high")["status"].get("nominatedNodeName")) == named(api, "n")
    [condition] = [each for each in victim["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (condition["reason"], condition["message"]) == (
        "PreemptionByScheduler",
        f"{DEFAULT}: preempting to accommodate a higher priority pod",
    )
    done(api.delete("pods", "low", gracePeriodSeconds=0))
    assert eventually(lambda: verdict(api, "high") == "n")


def _going(api: Api, name: str) -> Object | None:
    found = api.read("pods", name)
    return found if "deletionTimestamp" in found["metadata"] else None


def test_preemption_can_be_declined(api: Api) -> None:
    """A pod that never preempts waits."""
    join(api, "n", cpu="1")
    api.make(
        "priorityclasses", {"metadata": {"name": api.unique}, "value": 1000, "preemptionPolicy": "Never"}
    )
    schedule(api, "low", requests={"cpu": "1"})

    message = schedule(api, "high", {"priorityClassName": api.unique}, requests={"cpu": "1"})

    assert message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to"
        " preemptionPolicy=Never."
    )
    assert verdict(api, "low") == "n"


def test_the_lowest_priority_is_the_victim(api: Api) -> None:
    """Of several that could go, the least important goes."""
    join(api, "a", cpu="1")
    join(api, "b", cpu="1")
    for name, value in (("mid", 10), ("top", 1000)):
        api.make("priorityclasses", {"metadata": {"name": f"{api.unique}-{name}"}, "value": value})
    schedule(api, "p-mid", {"priorityClassName": f"{api.unique}-mid"}, requests={"cpu": "1"})
    low = schedule(api, "p-low", requests={"cpu": "1"})

    schedule(api, "p-top", {"priorityClassName": f"{api.unique}-top"}, requests={"cpu": "1"})

    assert eventually(lambda: verdict(api, "p-top") == low)
    assert not api.gone("pods", "p-mid")


def test_volumes_tie_a_pod_to_a_node(api: Api) -> None:
    """A volume that is on one node brings its pods there."""
    join(api, "a")
    join(api, "b")
    terms = [{"matchExpressions": [expression(HOSTNAME, "In", named(api, "b"))]}]
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": api.unique,
        "local": {"path": "/x"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    api.make(
        "storageclasses",
        {
            "metadata": {"name": api.unique},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    api.make("persistentvolumes", {"metadata": {"name": api.unique}, "spec": volume})
    claim = {
        "storageClassName": api.unique,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    api.make("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim})
    eventually(lambda: api.read("persistentvolumes", api.unique)["status"]["phase"] == "Available")

    api.make(
        "pods",
        pod(
            "p",
            spec={
                "schedulerName": DEFAULT,
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            },
        ),
    )

    assert eventually(lambda: verdict(api, "p") == "b")
    assert eventually(lambda: api.read("persistentvolumeclaims", "c")["status"]["phase"] == "Bound")
