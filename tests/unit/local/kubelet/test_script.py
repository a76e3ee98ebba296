"""What pods do, and when; what they say of themselves; what nodes say."""

from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter_local.kubelet import machine, status
from karpenter_local.kubelet.predicate import shortage
from karpenter_local.kubelet.script import PodTimings, script_for, variation
from karpenter_local.kubelet.settings import KubeletSettings
from karpenter_local.kubelet.static import MIRROR, mirror_of
from karpenter_local.testing.builders import manifest_pod

NOW = datetime(2025, 1, 1, 12, 0, tzinfo=UTC)
PLACE = status.PodAddresses("10.0.0.1", "10.1.0.1")
STEADY = PodTimings(variation=0.0)


def pod(*, job: bool = False, notes: dict[str, str] | None = None, **spec: Any) -> Pod:
    owner = [{"kind": "Job", "name": "j", "uid": "u", "controller": True}] if job else []
    meta = {"uid": "uid-p", "annotations": notes or {}, "ownerReferences": owner}
    shape = {"containers": [{"name": "main", "image": "pause"}], "restartPolicy": "Always", **spec}
    told = {"conditions": shape.pop("conditions", [])}
    return manifest_pod("p", meta=meta, status=told, **shape)


def note(**notes: str) -> dict[str, str]:
    return {f"local.karpenter.sh/{key.replace('_', '-')}": value for key, value in notes.items()}


@pytest.mark.parametrize(
    ("found", "field", "expected"),
    [
        pytest.param(pod(), "create", 1.0, id="takes a moment to start"),
        pytest.param(pod(notes=note(start_seconds="7")), "create", 7.0, id="as long as told"),
        pytest.param(pod(notes=note(start_seconds="soon")), "create", 1.0, id="nonsense is ignored"),
        pytest.param(pod(), "ready", 0.0, id="ready at once"),
        pytest.param(pod(notes=note(ready_seconds="never")), "ready", None, id="never ready"),
        pytest.param(pod(), "run", None, id="runs for ever"),
        pytest.param(pod(job=True, restartPolicy="Never"), "run", 5.0, id="a job's pod ends"),
        pytest.param(
            pod(restartPolicy="Never", notes={"helm.sh/hook": "test"}), "run", 5.0, id="a test of Helm ends"
        ),
        pytest.param(
            pod(job=True, restartPolicy="Never", notes=note(run_seconds="forever")),
            "run",
            None,
            id="unless told not to",
        ),
        pytest.param(
            pod(restartPolicy="Never", notes=note(run_seconds="9")), "run", 9.0, id="any pod may end"
        ),
        pytest.param(
            pod(notes=note(run_seconds="9")), "run", None, id="but one that is always restarted does not"
        ),
        pytest.param(pod(notes=note(exit_code="3")), "exit_code", 3, id="with some code"),
        pytest.param(pod(notes=note(exit_code="bad")), "exit_code", 1, id="a code that is none is a failure"),
        pytest.param(pod(notes=note(stop_seconds="-1")), "stop", 0.0, id="no time is negative"),
        pytest.param(
            pod(initContainers=[{"name": "a"}, {"name": "b", "restartPolicy": "Always"}]),
            "init",
            0.5,
            id="init takes longer",
        ),
    ],
)
def test_script(found: Pod, field: str, expected: float | None) -> None:
    """A pod's life follows from its annotations and from habit."""
    assert getattr(script_for(found, STEADY, seed=1), field) == expected


def container(*, readiness: Any = None, startup: Any = None, stop: Any = None, **more: Any) -> dict[str, Any]:
    """Return a container with probes and a preStop hook."""
    return {
        "name": "main",
        "readinessProbe": readiness,
        "startupProbe": startup,
        "lifecycle": {"preStop": stop} if stop else None,
        **more,
    }


LATE = {"initialDelaySeconds": 20}
TWICE = {"initialDelaySeconds": 5, "periodSeconds": 7, "successThreshold": 2}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pod(containers=[container(readiness={"periodSeconds": 3})]), 0.0, id="at the first try"),
        pytest.param(pod(containers=[container(readiness=LATE)]), 20.0, id="after the first delay"),
        pytest.param(pod(containers=[container(readiness=TWICE)]), 12.0, id="after the second success"),
        pytest.param(pod(containers=[container(startup=LATE)]), 20.0, id="after the start"),
        pytest.param(
            pod(containers=[container(startup=LATE, readiness=TWICE)]), 27.0, id="after the start, twice"
        ),
        pytest.param(
            pod(containers=[container(), container(readiness=LATE)]), 20.0, id="of the last container"
        ),
        pytest.param(
            pod(initContainers=[container(readiness=LATE, restartPolicy="Always")]), 20.0, id="of a sidecar"
        ),
        pytest.param(pod(initContainers=[container(startup=LATE)]), 0.0, id="not of an init container"),
        pytest.param(
            pod(containers=[container(readiness=LATE)], notes=note(ready_seconds="2")), 2.0, id="unless told"
        ),
    ],
)
def test_probes(found: Pod, expected: float) -> None:
    """A pod is ready when the probes of its containers have succeeded as often as they must."""
    assert script_for(found, STEADY, seed=1).ready == expected


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        pytest.param({"sleep": {"seconds": 5}}, 5.0, id="sleep"),
        pytest.param({"exec": {"command": ["sleep", "7"]}}, 7.0, id="the command"),
        pytest.param({"exec": {"command": ["/bin/sleep", "1.5"]}}, 1.5, id="the command with its path"),
        pytest.param({"exec": {"command": ["sh", "-c", "sleep 10; nginx -s quit"]}}, 10.0, id="in a shell"),
        pytest.param({"exec": {"command": ["/bin/sh", "-c", "sleep 1m && sleep 5s"]}}, 65.0, id="twice"),
        pytest.param({"exec": {"command": ["sh", "-c", "oversleep 3"]}}, 0.0, id="another command"),
        pytest.param({"httpGet": {"path": "/quit", "port": 80}}, 0.0, id="a request"),
    ],
)
def test_hooks_before_the_end(hook: dict[str, Any], expected: float) -> None:
    """A preStop hook takes as long as it sleeps."""
    assert script_for(pod(containers=[container(stop=hook)]), STEADY, seed=1).pre_stop == expected


def test_variation() -> None:
    """Pods differ a little, always in the same way."""
    values = [variation(1, f"uid-{n}") for n in range(100)]

    assert values == [variation(1, f"uid-{n}") for n in range(100)]
    assert all(0 <= value < 1 for value in values)
    assert len(set(values)) == 100
    assert script_for(pod(), PodTimings(), seed=1).create >= 1.0


def conditions(found: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in found["conditions"]}


def test_creating() -> None:
    """While containers are made the pod is pending, and waits for its init containers first."""
    plain, init = (
        status.creating(pod(), PLACE, NOW),
        status.creating(pod(initContainers=[{"name": "i"}]), PLACE, NOW),
    )

    assert (plain["phase"], conditions(plain)["Initialized"], conditions(plain)["Ready"]) == (
        "Pending",
        "True",
        "False",
    )
    assert plain["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert conditions(init)["Initialized"] == "False"
    assert init["initContainerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_running() -> None:
    """A pod that runs has addresses, and is ready when its gates are open too."""
    gate = [{"conditionType": "example.com/lb"}]
    held = pod(readinessGates=gate)
    let_go = pod(readinessGates=gate, conditions=[{"type": "example.com/lb", "status": "True"}])

    found = status.running(pod(initContainers=[{"name": "i"}]), PLACE, NOW, ready=True)
    assert (found["phase"], found["podIP"], conditions(found)["Ready"]) == ("Running", "10.1.0.1", "True")
    assert found["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert conditions(status.running(held, PLACE, NOW, ready=True))["Ready"] == "False"
    assert conditions(status.running(let_go, PLACE, NOW, ready=True))["Ready"] == "True"


def test_transition_times_are_kept() -> None:
    """A condition that does not change keeps its time, and one that holds loses its reason."""
    before = {"type": "Ready", "status": "True", "lastTransitionTime": "2024-06-01T00:00:00Z"}

    found = status.running(pod(conditions=[before]), PLACE, NOW, ready=True)["conditions"]

    ready = next(each for each in found if each["type"] == "Ready")
    assert (ready["lastTransitionTime"], ready["reason"]) == ("2024-06-01T00:00:00Z", None)


@pytest.mark.parametrize(
    ("code", "reason", "phase"), [(0, "", "Succeeded"), (1, "", "Failed"), (0, "DeadlineExceeded", "Failed")]
)
def test_ended(code: int, reason: str, phase: str) -> None:
    """A pod has succeeded if it exited with nothing wrong."""
    found = status.ended(pod(), NOW, exit_code=code, reason=reason, message="")

    assert (found["phase"], conditions(found)["Ready"]) == (phase, "False")


def test_the_class_of_service_is_left_to_the_server() -> None:
    """The API server sets the class of service and refuses any other; no report mentions it."""
    reports = (status.creating(pod(), PLACE, NOW), status.running(pod(), PLACE, NOW, ready=True))

    assert all("qosClass" not in each for each in reports)


def node(**more: Any) -> Node:
    meta = {"name": "n", "labels": more.pop("labels", {}), "annotations": more.pop("annotations", {})}
    return convert({"metadata": meta, "status": more}, Node)


def test_first_report() -> None:
    """A node that says nothing gets room and an address; one made by a cloud is taken at its word."""
    bare = machine.first_report(node(), NOW, address="10.0.0.1")
    made = machine.first_report(
        node(capacity={"cpu": "64"}, allocatable={"cpu": "60"}), NOW, address="10.0.0.1"
    )

    assert bare["capacity"] == bare["allocatable"] == machine.DEFAULT_ROOM
    assert bare["addresses"][0] == {"type": "InternalIP", "address": "10.0.0.1"}
    assert "capacity" not in made
    assert "allocatable" not in made
    assert conditions(bare) == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }


def test_an_unready_report() -> None:
    """A node that is not well says why."""
    found = machine.conditions(node(), NOW, ready=False, why="disk on fire")[-1]

    assert (found["status"], found["reason"], found["message"]) == (
        "False",
        "KubeletNotReady",
        "disk on fire",
    )


@pytest.mark.parametrize(
    ("zone", "region"),
    [("local-1a", "local-1"), ("us-west-2b", "us-west-2"), ("test-zone-a", "test-zone-a"), ("x", "x")],
)
def test_region_of(zone: str, region: str) -> None:
    """A zone is a region and a letter, where it looks like that."""
    assert machine.region_of(zone) == region


def test_which_nodes_are_kept_alive() -> None:
    """A node may ask to be left alone."""
    assert KubeletSettings().adopts(node())
    assert not KubeletSettings().adopts(node(annotations={"local.karpenter.sh/kubelet": "none"}))


def test_shortage() -> None:
    """A node turns a pod away when one more does not fit, and says what is missing."""
    capacity = {"cpu": 2000, "pods": 2}

    assert shortage({"cpu": 1000, "pods": 1}, {"cpu": 1000, "pods": 1}, capacity) is None
    assert str(shortage({"cpu": 1001, "pods": 1}, {"cpu": 1000}, capacity)) == (
        "Node didn't have enough resource: cpu, requested: 1001, used: 1000, capacity: 2000"
    )
    assert shortage({"example.com/gpu": 0}, {}, capacity) is None


def test_mirror_of() -> None:
    """A mirror is named after its node, belongs to it, and leaves the manifest as it was."""
    manifest = {"metadata": {"name": "proxy"}, "spec": {"containers": []}}

    made = mirror_of(manifest, "n", "uid-n")

    assert made["metadata"]["name"] == "proxy-n"
    assert made["metadata"]["namespace"] == "kube-system"
    assert made["metadata"]["annotations"][MIRROR]
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-n"
    assert made["spec"]["nodeName"] == "n"
    assert manifest == {"metadata": {"name": "proxy"}, "spec": {"containers": []}}
