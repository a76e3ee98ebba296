"""What buffers say about themselves."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.meta import convert
from karpenter.api.pod import PodTemplate
from karpenter.api.workloads import Deployment
from karpenter.core.effects import Amend
from karpenter.core.lifecycle.capacitybuffer import PERIOD, buffer_status
from karpenter.core.state.cluster import view_of
from tests.unit.core.lifecycle.objects import BORN, NOW, at, told

POD = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}]}}
PLACE = {"name": "web", "namespace": "shop", "generation": 6}
TEMPLATE = convert({"metadata": PLACE, "template": POD}, PodTemplate)
WORKLOAD = convert({"metadata": PLACE, "spec": {"template": POD, "replicas": 10}}, Deployment)
BY_TEMPLATE: dict[str, Any] = {"podTemplateRef": {"name": "web"}, "replicas": 3}
BY_WORKLOAD: dict[str, Any] = {
    "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
    "percentage": 20,
}


def buffer(spec: dict[str, Any], **status: Any) -> CapacityBuffer:
    meta = {"name": "spare", "namespace": "shop", "uid": "u", "generation": 2, "resourceVersion": "9"}
    return convert({"metadata": meta, "spec": spec, "status": status}, CapacityBuffer)


def written(
    spec: dict[str, Any], *there: Any, fits: bool | None = None, **status: Any
) -> dict[str, Any] | None:
    """Return the status that is written on a buffer, if any."""
    due = buffer_status(buffer(spec, **status), view_of(there), NOW, fits=fits)
    assert due.again == PERIOD
    for effect in due.effects:
        assert isinstance(effect, Amend)
        assert (effect.kind, effect.namespace, effect.version) == ("CapacityBuffer", "shop", "9")
        return dict(effect.status)
    return None


@pytest.mark.parametrize(
    ("spec", "there", "fits", "ready", "provisioning"),
    [
        pytest.param(BY_TEMPLATE, (TEMPLATE,), None, ("True", "Resolved"), None, id="nobody looked for room"),
        pytest.param(
            BY_TEMPLATE,
            (TEMPLATE,),
            True,
            ("True", "Resolved"),
            ("True", "FitsExistingCapacity"),
            id="all of its room exists",
        ),
        pytest.param(
            BY_WORKLOAD,
            (WORKLOAD,),
            False,
            ("True", "Resolved"),
            ("False", "RequiresNewCapacity"),
            id="some of its room does not exist",
        ),
        pytest.param(
            {**BY_TEMPLATE, "replicas": 0},
            (TEMPLATE,),
            True,
            ("True", "Resolved"),
            ("False", "BufferEmpty"),
            id="it asks for nothing",
        ),
        pytest.param(
            BY_TEMPLATE,
            (),
            True,
            ("False", "PodTemplateNotFound"),
            ("False", "NotReadyForProvisioning"),
            id="its template does not exist",
        ),
        pytest.param(
            BY_WORKLOAD,
            (TEMPLATE,),
            None,
            ("False", "ScalableRefNotFound"),
            ("False", "NotReadyForProvisioning"),
            id="its workload does not exist",
        ),
        pytest.param(
            {"scalableRef": {"apiGroup": "batch", "kind": "Job", "name": "web"}, "replicas": 1},
            (),
            None,
            ("False", "ResolutionFailed"),
            ("False", "NotReadyForProvisioning"),
            id="its workload is none",
        ),
    ],
)
def test_conditions(
    spec: dict[str, Any],
    there: tuple[Any, ...],
    fits: bool | None,
    ready: tuple[str, str],
    provisioning: tuple[str, str] | None,
) -> None:
    """A buffer says whether it was understood, and whether its room exists."""
    status = written(spec, *there, fits=fits)
    assert status is not None
    conditions = status["conditions"]

    assert told(conditions, "ReadyForProvisioning") == ready
    assert [told(conditions, "Provisioning")] == [provisioning] if provisioning else len(conditions) == 1
    assert {each["observedGeneration"] for each in conditions} == {2}


def test_what_it_comes_down_to() -> None:
    """A buffer shows for how many pods of which template it keeps room."""
    by_template, by_workload = written(BY_TEMPLATE, TEMPLATE), written(BY_WORKLOAD, WORKLOAD)
    assert by_template is not None
    assert by_workload is not None
    names = ("podTemplateRef", "podTemplateGeneration", "replicas", "provisioningStrategy")
    strategy = "buffer.x-k8s.io/active-capacity"

    assert [by_template[name] for name in names] == [{"name": "web"}, 6, 3, strategy]
    assert [by_workload[name] for name in names] == [None, None, 2, strategy]


def test_the_time_is_that_of_the_last_change() -> None:
    """A condition keeps its time while its status stays, whatever else is said of it."""
    old = {"message": "", "lastTransitionTime": at(BORN), "observedGeneration": 1}
    before = [
        {"type": "ReadyForProvisioning", "status": "True", "reason": "Resolved", **old},
        {"type": "Provisioning", "status": "True", "reason": "FitsExistingCapacity", **old},
    ]
    status = written(BY_TEMPLATE, TEMPLATE, fits=False, conditions=before)
    assert status is not None

    times = {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
    assert times == {"ReadyForProvisioning": at(BORN), "Provisioning": at(NOW)}


def test_what_was_said_is_not_said_again() -> None:
    """Nothing is written on a buffer that already says it."""
    status = written(BY_TEMPLATE, TEMPLATE, fits=True)
    assert status is not None

    assert written(BY_TEMPLATE, TEMPLATE, fits=True, **status) is None
    assert written(BY_TEMPLATE, TEMPLATE, **status) is None


def test_a_condition_or_a_field_that_differs_is_written() -> None:
    """Whether its room exists is written though its pods stay the same, and its strategy though both do."""
    status = written(BY_TEMPLATE, TEMPLATE, fits=True)
    assert status is not None
    other = {**BY_TEMPLATE, "provisioningStrategy": "example.com/none"}
    filled, changed = (
        written(BY_TEMPLATE, TEMPLATE, fits=False, **status),
        written(other, TEMPLATE, fits=True, **status),
    )
    assert filled is not None
    assert changed is not None

    assert told(filled["conditions"], "Provisioning") == ("False", "RequiresNewCapacity")
    assert filled["replicas"] == status["replicas"]
    assert changed["provisioningStrategy"] == "example.com/none"
    assert changed["conditions"] == status["conditions"]
