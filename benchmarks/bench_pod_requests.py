"""What pods ask for: from a plain pod to one with sidecars, pod-level resources and a resize under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.measure import Case, compare
from karpenter.api.pod import Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from karpenter.core.model.resources import pod_requests

if TYPE_CHECKING:
    from benchmarks.table import Table

SMALL = ResourceRequirements(requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "256Mi"})
PLAIN = Pod(spec=PodSpec(containers=(Container(name="app", resources=SMALL),)))
SIDECARS = Pod(
    spec=PodSpec(
        containers=tuple(Container(name=f"app-{number}", resources=SMALL) for number in range(3)),
        init_containers=(
            Container(name="proxy", resources=SMALL, restart_policy="Always"),
            Container(name="setup", resources=SMALL),
        ),
        overhead={"cpu": "10m"},
    )
)
POD_LEVEL = Pod(
    spec=PodSpec(
        containers=(Container(name="app", resources=SMALL),),
        resources=ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"}),
    )
)
RESIZED = Pod(
    spec=PodSpec(containers=(Container(name="app", resources=SMALL),)),
    status=PodStatus(
        container_statuses=(
            ContainerStatus(name="app", allocated_resources={"cpu": "200m"}, resources=SMALL),
        )
    ),
)


def suite() -> Table:
    """Return what reading the requests of a pod costs."""
    return compare(
        "pod requests",
        [
            Case("one container", lambda: pod_requests(PLAIN)),
            Case("three containers, a sidecar, an init container", lambda: pod_requests(SIDECARS)),
            Case("pod-level resources", lambda: pod_requests(POD_LEVEL)),
            Case("a resize under way", lambda: pod_requests(RESIZED)),
        ],
        notes=("every text has been read before, as in a cluster whose pods repeat themselves",),
    )
