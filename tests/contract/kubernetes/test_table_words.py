"""Tables: how pods and nodes are put into words."""

import pytest

from tests.contract.kubernetes.api import Api, Object, done
from tests.contract.kubernetes.objects import container, node, pod
from tests.contract.kubernetes.tables import IMAGE, cells, table

MAIN = {"name": "main", "image": IMAGE, "imageID": ""}


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param(
            {},
            {"phase": "Running", "containerStatuses": [{**MAIN, "ready": True, "state": {"running": {}}}]},
            ["1/1", "Running", "0"],
            id="ready",
        ),
        pytest.param(
            {},
            {
                "containerStatuses": [
                    {**MAIN, "ready": False, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                ]
            },
            ["0/1", "ImagePullBackOff", "0"],
            id="waiting for a reason",
        ),
        pytest.param(
            {"restartPolicy": "Never"},
            {
                "phase": "Succeeded",
                "containerStatuses": [{**MAIN, "state": {"terminated": {"reason": "Completed"}}}],
            },
            ["0/1", "Completed", "0"],
            id="completed",
        ),
        pytest.param(
            {"restartPolicy": "Never"},
            {"phase": "Failed", "containerStatuses": [{**MAIN, "state": {"terminated": {"exitCode": 3}}}]},
            ["0/1", "ExitCode:3", "0"],
            id="failed with a code",
        ),
        pytest.param({}, {"phase": "Failed", "reason": "Evicted"}, ["0/1", "Evicted", "0"], id="evicted"),
        pytest.param(
            {},
            {
                "phase": "Running",
                "containerStatuses": [{**MAIN, "restartCount": 4, "state": {"running": {}}}],
            },
            ["0/1", "Running", "4"],
            id="restarted",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "x.io/wait"}]},
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            ["0/1", "SchedulingGated", "0"],
            id="gated",
        ),
        pytest.param(
            {"initContainers": [container("init")]},
            {"initContainerStatuses": [{"name": "init", "state": {"running": {}}}]},
            ["0/1", "Init:0/1", "0"],
            id="initialising",
        ),
    ],
)
def test_pods_in_words(api: Api, spec: Object, status: Object, expected: list[str]) -> None:
    """The status of a pod is a word made from many fields."""
    api.make("pods", pod("x", spec=spec))
    done(api.patch("pods", "x", {"status": status}, sub="status"))

    assert table(api, "pods", "x")["rows"][0]["cells"][1:4] == expected


def test_a_terminating_pod_in_words(api: Api) -> None:
    """A pod that is being deleted is Terminating."""
    api.make("pods", pod("x", spec={"nodeName": "somewhere", "terminationGracePeriodSeconds": 30}))
    done(api.delete("pods", "x"))

    assert table(api, "pods", "x")["rows"][0]["cells"][2] == "Terminating"
    done(api.delete("pods", "x", gracePeriodSeconds=0))


@pytest.mark.parametrize(
    ("spec", "conditions", "expected"),
    [
        pytest.param({}, [{"type": "Ready", "status": "True"}], "Ready", id="ready"),
        pytest.param({}, [{"type": "Ready", "status": "False"}], "NotReady", id="not ready"),
        pytest.param({}, [{"type": "Ready", "status": "Unknown"}], "NotReady", id="silent"),
        pytest.param(
            {"unschedulable": True},
            [{"type": "Ready", "status": "True"}],
            "Ready,SchedulingDisabled",
            id="cordoned",
        ),
    ],
)
def test_nodes_in_words(api: Api, spec: Object, conditions: list[Object], expected: str) -> None:
    """The status of a node is its readiness and whether it takes pods; its roles come from labels."""
    roles = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": ""}
    api.make("nodes", node(api.unique, labels=roles, spec=spec))
    status = {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1.36.0"}}
    done(api.patch("nodes", api.unique, {"status": status}, sub="status"))

    assert cells(table(api, "nodes", api.unique))[1:4] == [expected, "edge,worker", "v1.36.0"]
