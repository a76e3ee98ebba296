"""Equal pods are one class, as they come from an API server."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from karpenter.core.model.requirements import NOTHING_REQUIRED
from karpenter.core.scheduling.encode.encode import classify
from karpenter.core.scheduling.problem import PodVolumes, Problem
from karpenter_local.testing.builders import manifest_pod

pod = partial(manifest_pod, namespace="shop", cpu="1")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param({}, {}, 1, id="pods that say the same"),
        pytest.param(
            {"volumes": [{"name": "kube-api-access-1"}]},
            {"volumes": [{"name": "kube-api-access-2"}]},
            1,
            id="volumes that every pod has under a name of its own",
        ),
        pytest.param({"nodeName": "node-1"}, {}, 1, id="a pod that moves and one that waits"),
        pytest.param({"nodeSelector": {"a": "b"}}, {}, 2, id="a preference that the other does not have"),
    ],
)
def test_what_tells_pods_apart(one: dict[str, Any], other: dict[str, Any], expected: int) -> None:
    """Only what scheduling looks at makes pods different."""
    found = classify(Problem(pods=(pod("a", **one), pod("b", **other))), avoidance=False)

    assert len(found) == expected


def test_pods_with_volumes_that_matter_stay_apart() -> None:
    """Two pods that mount claims are two classes, since their claims differ."""
    pods = (pod("a"), pod("b"))
    volumes = {each.key: PodVolumes((NOTHING_REQUIRED,), {}) for each in pods}

    assert len(classify(Problem(pods=pods, volumes=volumes), avoidance=False)) == 2
