"""What simulated kubelets report of pods is accepted, whatever the pods ask for."""

from datetime import UTC, datetime

import msgspec
import pytest

from karpenter.api.pod import Pod
from karpenter_local.kubelet import status
from tests.contract.kubernetes.api import STRATEGIC, Api, Object, done
from tests.contract.kubernetes.objects import container, pod

PLACE = status.PodAddresses("10.0.0.1", "10.1.0.1")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": [container()]}, id="nothing"),
        pytest.param({"containers": [container(requests={"ephemeral-storage": "1Gi"})]}, id="only disk"),
        pytest.param({"containers": [container(requests={"cpu": "0"})]}, id="no cpu"),
        pytest.param(
            {"containers": [container(resources={"limits": {"example.com/gpu": "1"}})]}, id="a device"
        ),
        pytest.param({"resources": {"requests": {"cpu": "1"}}, "containers": [container()]}, id="as a pod"),
        pytest.param(
            {"resources": {}, "containers": [container(requests={"cpu": "1"})]}, id="nothing as a pod"
        ),
    ],
)
def test_reports_are_accepted(api: Api, spec: Object) -> None:
    """A kubelet's reports take a pod to Running, and the class of service stays as the server set it."""
    made = api.make("pods", pod("a", spec=spec))
    now = datetime.now(UTC)
    for report in (status.creating, status.running):
        seen = msgspec.convert(api.read("pods", "a"), Pod, strict=False)
        change = (
            report(seen, PLACE, now)
            if report is status.creating
            else status.running(seen, PLACE, now, ready=True)
        )
        done(api.patch("pods", "a", {"status": change}, kind=STRATEGIC, sub="status"))

    found = api.read("pods", "a")["status"]

    assert (found["phase"], found["qosClass"]) == ("Running", made["status"]["qosClass"])
