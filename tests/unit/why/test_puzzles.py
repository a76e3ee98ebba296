"""Incidents as people meet them: each answer names the cause, and what was tried and helps."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.why.clusters import answer, ask, machine, pod, pool

if TYPE_CHECKING:
    from pathlib import Path

ZONE = "topology.kubernetes.io/zone"
ARCH = "kubernetes.io/arch"
CPU_LABEL = "karpenter.kwok.sh/instance-cpu"
SINCE = "2026-03-01T00:00:00Z"


def required(*entries: tuple[str, str, list[str]]) -> dict[str, Any]:
    """Return a template with these requirements, on-demand amd64 linux besides."""
    given = {key for key, *_ in entries}
    base = [
        ("karpenter.sh/capacity-type", "In", ["on-demand"]),
        (ARCH, "In", ["amd64"]),
        ("kubernetes.io/os", "In", ["linux"]),
    ]
    told = [each for each in base if each[0] not in given] + list(entries)
    return {
        "template": {
            "requirements": [{"key": key, "operator": how, "values": values} for key, how, values in told]
        }
    }


def labelled(found: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    found["spec"]["template"]["metadata"] = {"labels": labels}
    return found


def unready(found: dict[str, Any], message: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "False", "reason": "No", "message": message}
    found["status"] = {"conditions": [{**condition, "lastTransitionTime": SINCE}]}
    return found


def ec2_class(**conditions: str) -> dict[str, Any]:
    """Return an EC2NodeClass whose conditions are False, each with its message."""
    told = {**conditions, "Ready": ", ".join(f"{each}=False" for each in conditions)}
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "KarpenterNodeRole-blue",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "blue"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "blue"}}],
        },
        "status": {
            "conditions": [
                {
                    "type": each,
                    "status": "False",
                    "reason": "NotFound",
                    "message": message,
                    "lastTransitionTime": SINCE,
                }
                for each, message in told.items()
            ]
        },
    }


def ec2_pool(name: str = "default", **spec: Any) -> dict[str, Any]:
    found = pool(name, **spec)
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    found["spec"]["template"]["spec"]["nodeClassRef"] = reference
    return found


def bound_claim(zone: str) -> list[dict[str, Any]]:
    """Return a PersistentVolumeClaim that is bound to a volume of one zone."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv-7"},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-7"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Gi"}},
                "volumeName": "pv-7",
            },
            "status": {"phase": "Bound"},
        },
    ]


def daemon_set(name: str, requests: dict[str, str], **container: Any) -> dict[str, Any]:
    labels = {"app": name}
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}, **container}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


def foreign_node(zone: str, **spec: Any) -> dict[str, Any]:
    """Return a full node that Karpenter does not manage."""
    room = {"cpu": "1m", "memory": "1Ki", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"old-{zone}", "labels": {ZONE: zone, "kubernetes.io/hostname": f"old-{zone}"}},
        "spec": spec,
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def workload(kind: str, replicas: int = 2, **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    requests = spec.pop("requests", {"cpu": "1", "memory": "1Gi"})
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}], **spec},
    }
    meta = {"name": "web", "namespace": "default"}
    if kind in {"Job", "CronJob"}:
        template["spec"]["restartPolicy"] = "Never"
        job = {"parallelism": replicas, "completions": replicas, "template": template}
        body = job if kind == "Job" else {"schedule": "0 * * * *", "jobTemplate": {"spec": job}}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": meta, "spec": body}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": body}


SPREAD = {
    "topologyKey": ZONE,
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
WEB = {"labels": {"app": "web"}}
TWO_ZONES = required((ZONE, "In", ["test-zone-a", "test-zone-b"]))
SPREAD_PODS = [
    pod("one", metadata=WEB, nodeName="n-a"),
    pod("two", metadata=WEB, nodeName="n-b"),
    pod("a", metadata=WEB, topologySpreadConstraints=[SPREAD]),
]
NODES_OF_TWO_ZONES = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n-{each}", "labels": {ZONE: f"test-zone-{each}"}},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "110"}},
    }
    for each in "ab"
]
FULL_NODE = [*machine("n"), pod("x", "4", nodeName="n")]
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
SUBNET = "the subnet selector matches no subnet"


@pytest.mark.parametrize(
    ("objects", "causes", "cures", "never"),
    [
        pytest.param(
            [unready(ec2_pool(), "NodeClassReady=False"), ec2_class(SubnetsReady=SUBNET), pod("a")],
            [f"EC2NodeClass default is not ready: SubnetsReady: {SUBNET}"],
            ["put EC2NodeClass default right, so that NodePool default is ready"],
            [],
            id="the NodePool waits for its EC2NodeClass, which finds no subnet",
        ),
        pytest.param(
            [pool(**TWO_ZONES), pod("a", nodeSelector={ZONE: "test-zone-c"})],
            ["pod wants topology.kubernetes.io/zone In [test-zone-c]"],
            ["add test-zone-c to the values of topology.kubernetes.io/zone in NodePool default"],
            [],
            id="the pod selects a zone that the NodePool leaves out",
        ),
        pytest.param(
            [pool(**required()), pod("a", nodeSelector={ARCH: "arm64"})],
            ["pod wants kubernetes.io/arch In [arm64]"],
            ["add arm64 to the values of kubernetes.io/arch in NodePool default"],
            ["drop nodeSelector"],
            id="the pod selects an architecture, which is never dropped",
        ),
        pytest.param(
            [
                pool(**required()),
                pod("a", nodeSelector={"node.kubernetes.io/instance-type": "c-4x-arm64-linux"}),
            ],
            ["c-4x-arm64-linux"],
            [],
            ["drop nodeSelector"],
            id="an instance type implies the architecture, so that it is not dropped for another",
        ),
        pytest.param(
            [
                pool("arm", template={**required((ARCH, "In", ["arm64"]))["template"], "taints": [TAINT]}),
                pool("small", **required((CPU_LABEL, "In", ["1"]))),
                pod("a", "3"),
            ],
            [],
            ["to the values of karpenter.kwok.sh/instance-cpu in NodePool small"],
            ["toleration"],
            id="a tainted NodePool of another architecture is not opened to a pod that says none",
        ),
        pytest.param(
            [pool(**required()), pod("a", nodeSelector={"team": "data"})],
            ["label team has no known values"],
            ["add the label team=data to the template of NodePool default"],
            [],
            id="the pod selects a label that no template has",
        ),
        pytest.param(
            [pool(**required((CPU_LABEL, "Lt", ["5"]))), pod("a", "10")],
            ["the pod is too large for every instance type left", "needs 6.1 more cpu on the largest type"],
            ["change karpenter.kwok.sh/instance-cpu Lt 5 to 17 in NodePool default"],
            [],
            id="the NodePool allows small types only",
        ),
        pytest.param(
            [pool(limits={"cpu": "2"}, **required()), pod("a", "3")],
            [
                "every instance type that would do exceeds the pool's limits",
                "would fit if the limit were 4 cpu",
            ],
            ["raise the limit of NodePool default on cpu from 2 to 4"],
            [],
            id="the limit is too low for any machine that would do",
        ),
        pytest.param(
            [
                pool(**TWO_ZONES),
                *bound_claim("test-zone-c"),
                pod("a", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]),
            ],
            [
                (
                    "PersistentVolumeClaim default/data is bound to PersistentVolume pv-7, which is in "
                    "topology.kubernetes.io/zone In [test-zone-c]"
                )
            ],
            ["add test-zone-c to the values of topology.kubernetes.io/zone in NodePool default"],
            [],
            id="the volume of the pod is in another zone",
        ),
        pytest.param(
            [
                pool(**required((CPU_LABEL, "In", ["4"]))),
                daemon_set("agent", {"cpu": "2500m", "memory": "1Gi"}),
                daemon_set("small", {"cpu": "50m"}),
                pod("a", "2"),
            ],
            [
                (
                    "DaemonSets take cpu 2.55, memory 1Gi of every new node of NodePool default: "
                    "kube-system/agent (cpu 2.5, memory 1Gi), kube-system/small (cpu 0.05)"
                )
            ],
            ["keep DaemonSet kube-system/agent (cpu 2.5, memory 1Gi) off NodePool default"],
            [],
            id="a DaemonSet eats the machine",
        ),
        pytest.param(
            [pool(**TWO_ZONES), *NODES_OF_TWO_ZONES, foreign_node("test-zone-d"), *SPREAD_PODS],
            [
                (
                    "test-zone-d counts for the topology spread over topology.kubernetes.io/zone because of "
                    "node old-test-zone-d, which Karpenter does not manage; no NodePool launches nodes there"
                )
            ],
            [
                "require topology.kubernetes.io/zone In [test-zone-a test-zone-b], where NodePools launch",
                "add test-zone-d to the values of topology.kubernetes.io/zone in NodePool default",
            ],
            ["nodeTaintsPolicy"],
            id="a spread counts a zone that only a full node of others has",
        ),
        pytest.param(
            [
                pool(**TWO_ZONES),
                *NODES_OF_TWO_ZONES,
                foreign_node("test-zone-d", taints=[TAINT]),
                *SPREAD_PODS,
            ],
            ["test-zone-d counts for the topology spread"],
            ["set nodeTaintsPolicy: Honor in the topology spread over topology.kubernetes.io/zone"],
            [],
            id="a spread counts a zone that only tainted nodes of others have",
        ),
        pytest.param(
            [pool(**required()), pod("a", nodeSelector={"karpenter.sh/capacity-typ": "on-demand"})],
            ['did you mean "karpenter.sh/capacity-type"?'],
            ["write karpenter.sh/capacity-type instead of karpenter.sh/capacity-typ in the pod"],
            ["template of NodePool"],
            id="a typing error in a well-known label",
        ),
        pytest.param(
            [pool(**required()), pod("a", nodeSelector={"karpenter.sh/capacity-type": "ondemand"})],
            ['karpenter.sh/capacity-type is never "ondemand"; did you mean "on-demand"?'],
            ["write karpenter.sh/capacity-type=on-demand instead of ondemand in the pod"],
            [],
            id="a typing error in the value of a well-known label",
        ),
        pytest.param(
            [
                pool(
                    template={
                        "requirements": [
                            *required()["template"]["requirements"],
                            {
                                "key": "karpenter.kwok.sh/instance-family",
                                "operator": "In",
                                "values": ["c", "s", "m"],
                                "minValues": 3,
                            },
                        ]
                    }
                ),
                pod("a", "200", "600Gi"),
            ],
            ["minValues of the pool cannot be kept with this pod: karpenter.kwok.sh/instance-family has"],
            ["drop minValues 3 of karpenter.kwok.sh/instance-family from NodePool default"],
            [],
            id="too few families for minValues",
        ),
        pytest.param(
            [
                pool(**required((CPU_LABEL, "In", ["4"]))),
                pod("a", "3500m", overhead={"cpu": "500m"}, runtimeClassName="kata"),
            ],
            ["the overhead of RuntimeClass kata adds cpu 0.5 to what the containers request"],
            ["lower the pod's cpu request from 3.5 to 3400m"],
            [],
            id="the overhead of a RuntimeClass is too much",
        ),
        pytest.param(
            [
                pool(**required()),
                daemon_set("proxy", {"cpu": "100m"}, ports=[{"containerPort": 80, "hostPort": 80}]),
                {
                    **pod("a"),
                    "spec": {
                        "containers": [
                            {
                                "name": "c",
                                "image": "i",
                                "resources": {"requests": {"cpu": "1"}},
                                "ports": [{"containerPort": 80, "hostPort": 80}],
                            }
                        ]
                    },
                },
            ],
            ["a daemon of every node takes a host port that the pod wants", "kube-system/proxy"],
            ["keep DaemonSet kube-system/proxy (cpu 0.1) off NodePool default"],
            [],
            id="a daemon has the host port",
        ),
        pytest.param(
            [
                pool("gpu", weight=100, template={**required()["template"], "taints": [TAINT]}),
                pool("full", limits={"cpu": "1"}, **required()),
                pool("small", **required((CPU_LABEL, "In", ["1"]))),
                pod("a", "3"),
            ],
            [],
            ["raise the limit of NodePool full on cpu from 1 to 4"],
            ["toleration"],
            id="a tainted NodePool that the pod does not select is not opened where another helps",
        ),
        pytest.param(
            [
                labelled(pool("gpu", template={**required()["template"], "taints": [TAINT]}), {"team": "ml"}),
                pool("other", limits={"cpu": "1"}, **required()),
                pod("a", "3", nodeSelector={"team": "ml"}),
            ],
            ["the pod does not tolerate the taint dedicated=gpu:NoSchedule"],
            ["add a toleration for dedicated=gpu:NoSchedule to the pod"],
            [],
            id="a tainted NodePool that the pod selects",
        ),
        pytest.param(
            [pool(**required()), pod("a", "1", "100Ti")],
            ["wants memory 100Ti"],
            ["lower the pod's memory request from 100Ti to"],
            [],
            id="a request that no machine can ever have",
        ),
    ],
)
def test_names_the_cause_and_the_cure(
    objects: list[dict[str, Any]], causes: list[str], cures: list[str], never: list[str], tmp_path: Path
) -> None:
    """A pod without a place is told why in terms of the objects involved, and what was tried and helps."""
    catalog = "aws" if any(each["kind"] == "EC2NodeClass" for each in objects) else "kwok"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = answer("pod/a", objects, tmp_path, "--catalog", catalog)

    told = "\n".join(
        [*found["because"], *(f"{each['message']} ({each['nearest']})" for each in found["nodePools"])]
    )
    changes = "\n".join(each["change"] for each in found["changes"])
    assert [each for each in causes if each not in told] == [], told
    assert [each for each in cures if each not in changes] == [], f"{changes}\n{told}"
    assert [each for each in never if each in changes] == []


HELD = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
OWNED = {
    "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    ]
}
PDB = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0},
}
GOES = "it would go now (Empty), which saves $73.00 a month"
MOVES = "it would go now (Underutilized), which saves $"


def idle_machines() -> list[dict[str, Any]]:
    """Return two machines with room for each other's pods."""
    return [*machine("n"), *machine("m"), pod("other", nodeName="m", metadata={**HELD, **OWNED})]


@pytest.mark.parametrize(
    ("objects", "change", "result"),
    [
        pytest.param(
            [pool(disruption={"budgets": [{"nodes": "0"}]}), *machine("n")],
            "let a disruption budget of NodePool default allow more now, such as nodes: 100%",
            GOES,
            id="its budget is closed",
        ),
        pytest.param(
            [pool(), *idle_machines(), pod("a", nodeName="n", metadata={**HELD, **OWNED})],
            "take the annotation karpenter.sh/do-not-disrupt off pod default/a, when it may be disturbed",
            MOVES,
            id="a pod must not be disrupted",
        ),
        pytest.param(
            [pool(), *idle_machines(), PDB, pod("a", nodeName="n", metadata={**WEB, **OWNED})],
            "let PodDisruptionBudget default/web allow 1 of its pods to be evicted, by more replicas or a "
            "larger maxUnavailable",
            MOVES,
            id="a PodDisruptionBudget allows no eviction",
        ),
        pytest.param(
            [pool(disruption={"consolidateAfter": "24h"}), *machine("n")],
            "lower consolidateAfter of NodePool default from 24h to 0s",
            GOES,
            id="consolidateAfter has not passed",
        ),
        pytest.param(
            [pool(disruption={"consolidateAfter": "Never"}), *machine("n")],
            "lower consolidateAfter of NodePool default from Never to 0s",
            GOES,
            id="consolidateAfter is Never",
        ),
        pytest.param(
            [
                pool(disruption={"consolidationPolicy": "WhenEmpty"}),
                *idle_machines(),
                pod("a", nodeName="n", metadata=OWNED),
            ],
            "set consolidationPolicy of NodePool default to WhenEmptyOrUnderutilized",
            MOVES,
            id="only empty nodes go",
        ),
        pytest.param(
            [
                pool(limits={"cpu": "4"}),
                *machine("n"),
                pod("a", "1", nodeName="n", metadata=OWNED),
                {**pool("drifting"), "spec": {**pool("drifting")["spec"], "limits": {"cpu": "0"}}},
            ],
            "",
            "",
            id="nothing helps where no cheaper machine would do",
        ),
    ],
)
def test_says_what_would_let_a_node_go(
    objects: list[dict[str, Any]], change: str, result: str, tmp_path: Path
) -> None:
    """A node that is held is told the change after which the same decision lets it go."""
    found = answer("node/n", objects, tmp_path)

    told = [(each["change"], each["result"][: len(result)]) for each in found["changes"]]
    assert told == ([(change, result)] if change else []), found


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("Deployment", "deployment/web", id="a Deployment"),
        pytest.param("ReplicaSet", "rs/web", id="a ReplicaSet"),
        pytest.param("StatefulSet", "statefulset/default/web", id="a StatefulSet"),
        pytest.param("Job", "job/web", id="a Job"),
        pytest.param("CronJob", "cronjob/web", id="a CronJob"),
    ],
)
def test_a_workload_is_asked_about_as_a_whole(kind: str, name: str, tmp_path: Path) -> None:
    """Its waiting pods are counted, and a change is made to all of them at once."""
    objects = [pool(**required((CPU_LABEL, "In", ["4"]))), workload(kind, requests={"cpu": "8"})]
    found = answer(name, objects, tmp_path, "--catalog", "kwok")

    assert found["object"] == f"{kind.lower()}/default/web"
    assert (found["placed"], found["answer"]) == (False, "2 of 2 pods wait and have no place.")
    assert [(each["change"], each["result"][:36]) for each in found["changes"]] == [
        (
            "add 16 to the values of karpenter.kwok.sh/instance-cpu in NodePool default",
            "2 of 2 pods would have a place, the ",
        ),
        ("lower the pod's cpu request from 8 to 3900m", "2 of 2 pods would have a place, the "),
    ]


@pytest.mark.parametrize(
    ("objects", "placed", "said", "because"),
    [
        pytest.param(
            [pool(), workload("Deployment")],
            True,
            "2 pods of 2 wait and will run.",
            "2 pods to a new four of NodePool default (zone-a, on-demand, $0.1000 an hour)",
            id="all of them will have a place",
        ),
        pytest.param(
            [pool(), workload("Deployment", 0)], True, "It has no pods.", "", id="it is scaled to nothing"
        ),
        pytest.param(
            [
                pool(),
                *machine("n"),
                workload("ReplicaSet"),
                pod("web-1", nodeName="n", metadata=OWNED),
            ],
            True,
            "Its pod runs.",
            "1 pod on node n",
            id="it runs",
        ),
        pytest.param(
            [pool(limits={"cpu": "4"}), workload("Deployment", 4, requests={"cpu": "3"})],
            False,
            "3 of 4 pods wait and have no place.",
            "1 pod to a new four of NodePool default (zone-a, on-demand, $0.1000 an hour)",
            id="some of them have no place",
        ),
    ],
)
def test_says_where_the_pods_of_a_workload_are(
    objects: list[dict[str, Any]], placed: bool, said: str, because: str, tmp_path: Path
) -> None:
    """Pods that run, will run and have no place are counted apart."""
    found = answer("rs/web" if objects[-1]["kind"] == "Pod" else "deploy/web", objects, tmp_path)

    assert (found["placed"], found["answer"]) == (placed, said)
    assert because in [*found["because"], ""]


def test_a_daemon_set_says_what_it_takes_of_new_nodes(tmp_path: Path) -> None:
    """Of every NodePool it is said whether new nodes run the DaemonSet, and what is kept for it."""
    objects = [
        pool(),
        pool("gpu", template={"taints": [TAINT]}),
        daemon_set("agent", {"cpu": "250m", "memory": "1Gi"}),
    ]
    found = answer("ds/kube-system/agent", objects, tmp_path)

    assert found["because"] == [
        "every new node of NodePool default runs it and keeps cpu 0.25, memory 1Gi for it",
        "new nodes of NodePool gpu do not run it: their taints or labels keep it off",
    ]


@pytest.mark.parametrize(
    ("found_class", "placed", "said", "because"),
    [
        pytest.param(
            ec2_class(SubnetsReady=SUBNET),
            False,
            "It is not ready, so nothing is launched for it.",
            [f"SubnetsReady: {SUBNET}", "it is used by NodePool default, with 0 nodes now"],
            id="one of its conditions is False",
        ),
        pytest.param(
            {**ec2_class(), "status": {}},
            False,
            "Its readiness is not known: the operator has not looked at it yet.",
            ["it is used by NodePool default, with 0 nodes now"],
            id="nothing is known of it",
        ),
    ],
)
def test_a_node_class_says_what_keeps_it_from_being_ready(
    found_class: dict[str, Any], placed: bool, said: str, because: list[str], tmp_path: Path
) -> None:
    """The conditions that do not hold are told with their messages, and which NodePools wait for them."""
    found = answer("ec2nodeclass/default", [ec2_pool(), found_class], tmp_path, "--catalog", "aws")

    assert (found["placed"], found["answer"], found["because"]) == (placed, said, because)


def sold_out_event(at: str, message: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "claim.1", "namespace": "default", "annotations": annotations},
        "involvedObject": {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "default-x"},
        "reason": "InsufficientCapacityError",
        "message": message,
        "type": "Warning",
        "lastTimestamp": at,
    }


NAMES = "four/zone-a/on-demand big/zone-a/on-demand"
TOLD = "Insufficient capacity, the NodeClaim is deleted: 2 offerings are sold out: four/zone-a/on-demand"


@pytest.mark.parametrize(
    ("event", "said", "because"),
    [
        pytest.param(
            sold_out_event("2026-03-02T11:59:00Z", TOLD, **{"karpenter.sh/sold-out-offerings": NAMES}),
            "It waits and has no place.",
            "the operator leaves these out for 3 minutes: big/zone-a/on-demand, four/zone-a/on-demand",
            id="everything that would do",
        ),
        pytest.param(
            sold_out_event("2026-03-02T11:59:00Z", TOLD),
            "It waits: launches fail for want of capacity. A new big of NodePool default (zone-a, "
            "on-demand, $0.4000 an hour) is tried next.",
            "the operator leaves these out for 3 minutes: four/zone-a/on-demand",
            id="the cheapest, so that the next one is tried",
        ),
        pytest.param(
            sold_out_event("2026-03-02T11:59:00Z", "NodeClaim x: with fleet error(s), InsufficientCapacity"),
            "It waits: launches fail for want of capacity. A new four of NodePool default (zone-a, "
            "on-demand, $0.1000 an hour) is tried next.",
            "1 launch failed for want of capacity, the last at 11:59:00Z (default-x): with fleet error(s), "
            "InsufficientCapacity",
            id="an Event that does not say what",
        ),
        pytest.param(
            sold_out_event("2026-03-02T11:50:00Z", TOLD),
            "It will run on a new four of NodePool default (zone-a, on-demand, $0.1000 an hour).",
            "",
            id="longer ago than the operator remembers",
        ),
    ],
)
def test_launches_that_failed_for_want_of_capacity_count(
    event: dict[str, Any], said: str, because: str, tmp_path: Path
) -> None:
    """What was sold out in the last three minutes is not promised, as the operator does not try it either."""
    found = answer("pod/a", [pool(), pod("a"), event], tmp_path)

    assert found["answer"] == said
    assert because in [*found["because"], ""]


def test_sold_out_spot_is_answered_with_on_demand(tmp_path: Path) -> None:
    """Where what a NodePool may buy is sold out, the capacity type that is not is among the changes."""
    event = sold_out_event("2026-03-02T11:59:00Z", "sold out: four/zone-a/spot")
    found = answer("pod/a", [pool("default", "spot"), pod("a"), event], tmp_path)

    assert not found["placed"]
    assert [each["change"] for each in found["changes"]] == [
        "add on-demand to the values of karpenter.sh/capacity-type in NodePool default"
    ]


def test_a_node_class_that_was_not_read_is_noted(tmp_path: Path) -> None:
    """Without its EC2NodeClass the price of a machine lacks its volumes, which is said."""
    found = answer("pod/a", [ec2_pool(), pod("a")], tmp_path, "--catalog", "aws")

    assert "EC2NodeClass default was not read, so prices lack the volumes of its machines" in found["because"]


def test_a_zone_is_added_in_which_the_node_class_has_a_subnet(tmp_path: Path) -> None:
    """Of the zones that would do, one is named that needs nothing else."""
    ready = ec2_class()
    ready["status"] = {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE}],
        "subnets": [{"id": "subnet-1", "zone": "us-east-1b", "zoneID": "use1-az2"}],
    }
    elsewhere = ec2_pool(**required((ZONE, "In", ["us-west-2a"])))

    found = answer("pod/a", [elsewhere, ready, pod("a")], tmp_path, "--catalog", "aws")

    assert [each["change"] for each in found["changes"]] == [
        "add us-east-1b to the values of topology.kubernetes.io/zone in NodePool default"
    ]


def test_rules_of_doctor_about_the_node_pool_are_among_the_causes(tmp_path: Path) -> None:
    """A capital letter in a category leaves no instance type, and why says so as doctor does."""
    category = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["C"]}
    objects = [ec2_pool(template={"requirements": [category]}), pod("a")]
    found = answer("pod/a", objects, tmp_path, "--catalog", "aws")

    assert [each for each in found["because"] if "instance-category" in each] == [
        (
            "NodePool/default: spec.template.spec.requirements[0].values: "
            "karpenter.k8s.aws/instance-category is never 'C', so that nothing matches; "
            "did you mean 'c'?; write c"
        )
    ]
    assert "add c to the values of karpenter.k8s.aws/instance-category in NodePool default" in [
        each["change"] for each in found["changes"]
    ]


@pytest.mark.parametrize("resource", ["memory", "cpu", "ephemeral-storage", "nvidia.com/gpu"])
@pytest.mark.parametrize("amount", ["100Ti", "1Ei", "4Ei", "1e18", "1e30"])
def test_no_amount_is_too_large_to_be_answered(resource: str, amount: str, tmp_path: Path) -> None:
    """However much is requested, times the replicas, the answer is a sentence without a warning."""
    objects = [pool(**required()), workload("Deployment", 3, requests={"cpu": "1", resource: amount})]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ask("deploy/web", objects, tmp_path, "--catalog", "aws")

    assert "Warning" not in result.output
    assert result.exit_code in {1, 2}
    assert "3 of 3 pods wait and have no place." in result.stdout or "error: " in result.stderr


@pytest.mark.parametrize("resource", ["memory", "cpu", "nodes"])
def test_no_limit_is_too_large(resource: str, tmp_path: Path) -> None:
    """A limit beyond 64 bits is none."""
    objects = [pool(limits={resource: "1e25"}), *FULL_NODE, pod("a")]

    assert answer("pod/a", objects, tmp_path)["placed"]


def test_a_launch_after_a_failure_ends_the_doubt(tmp_path: Path) -> None:
    """Where a machine of the NodePool was launched since, what is left out is, and the next is promised."""
    launched = machine("n", steps=1, node=False)
    launched[0]["status"]["conditions"][0]["lastTransitionTime"] = "2026-03-02T11:59:30Z"
    event = sold_out_event("2026-03-02T11:59:00Z", TOLD)
    found = answer("pod/a", [pool(), pod("a", "8"), *launched, event], tmp_path)

    assert found["answer"].startswith("It will run on a new big of NodePool default")


def test_a_claim_that_is_being_tried_is_not_promised_while_launches_fail(tmp_path: Path) -> None:
    """The pod is to go to a NodeClaim that has no machine yet, and those before it got none."""
    event = sold_out_event("2026-03-02T11:59:00Z", TOLD)
    (claim,) = machine("n", steps=0, node=False)
    claim["metadata"]["name"] = "default-y"
    found = answer("pod/a", [pool(), pod("a"), claim, event], tmp_path)

    assert not found["placed"]
    assert "will run" not in found["answer"]


@pytest.mark.parametrize(
    ("objects", "said", "changes"),
    [
        pytest.param(
            [pool(limits={"cpu": "2"}), pod("a", "3")],
            "It buys nothing now: it cannot serve the pods that wait.",
            ["raise the limit of NodePool default on cpu from 2 to 4"],
            id="its limit is too low",
        ),
        pytest.param(
            [pool(), pod("a"), sold_out_event("2026-03-02T11:59:00Z", TOLD)],
            "It would buy 1 node for 1 pod, but its launches fail for want of capacity.",
            [],
            id="its launches fail",
        ),
    ],
)
def test_a_node_pool_says_what_would_help(
    objects: list[dict[str, Any]], said: str, changes: list[str], tmp_path: Path
) -> None:
    """What would let the pods in that wait is tried, and a machine that is sold out is not promised."""
    found = answer("nodepool/default", objects, tmp_path)

    assert (found["placed"], found["answer"]) == (False, said)
    assert [each["change"] for each in found["changes"]] == changes
