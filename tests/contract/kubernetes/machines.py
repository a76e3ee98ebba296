"""
Nodes and pods as a kubelet reports them; there is no kubelet in these tests, on either server.

Names of nodes are prefixed with the test's word, because nodes have no namespace.
"""

from datetime import UTC, datetime

from tests.contract.kubernetes.api import STRATEGIC, Api, Object, done, eventually
from tests.contract.kubernetes.objects import node, pod

DEFAULT = "default-scheduler"
NOT_READY = "node.kubernetes.io/not-ready"


def now() -> str:
    """Return the time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def named(api: Api, short: str) -> str:
    """Return the whole name of a node."""
    return f"{api.unique}-{short}"


def join(
    api: Api,
    short: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    labels: dict[str, str] | None = None,
    spec: Object | None = None,
    **resources: str,
) -> str:
    """Let a node join, report that it is ready, and wait until pods may land on it."""
    name = named(api, short)
    api.make("nodes", node(name, labels={"kubernetes.io/hostname": name, **(labels or {})}, spec=spec))
    report(api, short, ready="True", capacity={"cpu": cpu, "memory": memory, "pods": "110", **resources})
    eventually(lambda: NOT_READY not in taints(api, name))
    return name


def report(api: Api, short: str, *, ready: str, capacity: dict[str, str] | None = None) -> None:
    """Say that a node is ready, or that it is not."""
    moment = now()
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "KubeletReady" if ready == "True" else "KubeletNotReady",
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
    }
    status: Object = {"conditions": [condition]}
    if capacity:
        status.update(capacity=capacity, allocatable=capacity)
    done(api.patch("nodes", named(api, short), {"status": status}, kind=STRATEGIC, sub="status"))


def taints(api: Api, name: str) -> set[str]:
    """Return the keys of a node's taints."""
    return {each["key"] for each in api.read("nodes", name)["spec"].get("taints", [])}


def run(api: Api, name: str, *, on: str = "somewhere") -> None:
    """Make a pod run and be ready."""
    if not api.read("pods", name)["spec"].get("nodeName"):
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": on}}
        bound = api.create("pods", target, name=name, sub="binding")
        assert bound.status in {201, 409}, bound.message  # the scheduler may have been faster
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now()}
    running = {"phase": "Running", "startTime": now(), "conditions": [ready]}
    done(api.patch("pods", name, {"status": running}, kind=STRATEGIC, sub="status"))


def finish(api: Api, name: str, phase: str = "Succeeded") -> None:
    ended = {"exitCode": 0 if phase == "Succeeded" else 1, "startedAt": now(), "finishedAt": now()}
    status = {"name": "main", "image": "i", "imageID": "", "ready": False, "state": {"terminated": ended}}
    ready = {"type": "Ready", "status": "False"}
    body = {"phase": phase, "conditions": [ready], "containerStatuses": [{**status, "restartCount": 0}]}
    done(api.patch("pods", name, {"status": body}, kind=STRATEGIC, sub="status"))


def living(api: Api, labels: str) -> list[Object]:
    """Return the pods that are not on their way out, oldest name first."""
    found: list[Object] = done(api.find("pods", labelSelector=labels))["items"]
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def run_all(api: Api, labels: str) -> int:
    """Make every living pod with `labels` run; return how many there are."""
    found = living(api, labels)
    for each in found:
        if each["status"]["phase"] == "Pending":
            run(api, each["metadata"]["name"])
    return len(found)


def bury(api: Api, labels: str = "") -> None:
    """End every pod that was told to go."""
    for each in done(api.find("pods", labelSelector=labels))["items"]:
        if "deletionTimestamp" in each["metadata"]:
            api.delete("pods", each["metadata"]["name"], gracePeriodSeconds=0)


def schedule(
    api: Api, name: str, spec: Object | None = None, *, requests: dict[str, str] | None = None, **labels: str
) -> str:
    """Create a pod for the scheduler; return the short name of its node, or the scheduler's sentence."""
    api.make(
        "pods", pod(name, spec={"schedulerName": DEFAULT, **(spec or {})}, requests=requests, labels=labels)
    )
    return eventually(lambda: verdict(api, name))


def verdict(api: Api, name: str) -> str:
    """Return what the scheduler has said about a pod so far."""
    found = api.read("pods", name)
    if node_name := found["spec"].get("nodeName"):
        return str(node_name).removeprefix(f"{api.unique}-")
    for each in found["status"].get("conditions", []):
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return str(each["message"])
    return ""
