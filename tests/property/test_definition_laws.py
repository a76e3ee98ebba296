"""Laws of cluster definitions: what is rendered and imported again is the same."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.kinds import KINDS
from karpenter.api.validation.objects import check_object
from karpenter.definition.model import ClusterDefinition, read_definition
from karpenter.definition.objects import import_definition, render_definition

WORDS = st.sampled_from(["a", "b", "c-1"])
LABELS = st.dictionaries(WORDS, WORDS, max_size=2)
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
TAINTS = st.lists(
    st.fixed_dictionaries({"key": WORDS, "effect": EFFECTS}, optional={"value": WORDS}),
    max_size=2,
    unique_by=lambda each: each["key"],
)
KEYS = (
    "karpenter.k8s.aws/instance-category",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "karpenter.sh/capacity-type",
    "team",
)
VALUES = {"kubernetes.io/arch": "arm64", "kubernetes.io/os": "windows", "karpenter.sh/capacity-type": "spot"}
REQUIREMENTS = st.lists(st.sampled_from(KEYS), max_size=4, unique=True).map(
    lambda keys: [{"key": key, "operator": "In", "values": [VALUES.get(key, "c")]} for key in keys]
)
CLASSES = st.fixed_dictionaries(
    {},
    optional={
        "extra_securitygroup_ids": st.lists(
            st.sampled_from(["sg-01", "sg-02"]), min_size=1, max_size=2, unique=True
        ),
        "gpu_enabled": st.just(True),
        "public": st.just(True),
        "tags": st.dictionaries(WORDS, WORDS, min_size=1, max_size=2),
        "volumeSize": st.sampled_from(["20Gi", "100Gi"]),
        "role": st.just("other"),
        "ami_alias": st.just("bottlerocket@latest"),
        "name": st.just("special"),
        "spec": st.sampled_from([{"kubelet": {"maxPods": 10}}, {"role": None, "instanceProfile": "p"}]),
    },
)
POOLS = st.fixed_dictionaries(
    {"limits": st.sampled_from([{"cpu": 10}, {"cpu": "500m", "memory": "1Gi"}, {"nodes": 3}])},
    optional={
        "node_class": CLASSES,
        "labels": LABELS,
        "annotations": LABELS,
        "taints": TAINTS,
        "requirements": REQUIREMENTS,
        "weight": st.integers(1, 100),
        "expire_after": st.sampled_from(["1h", "Never"]),
        "termination_grace_period": st.just("1h"),
        "disruption": st.fixed_dictionaries(
            {"consolidate_after": st.sampled_from(["0s", "Never"])},
            optional={
                "budgets": st.just(
                    [{"nodes": "0", "schedule": "@daily", "duration": "1h", "reasons": ["Drifted"]}]
                )
            },
        ),
    },
)
DEFINITIONS = st.dictionaries(st.sampled_from(["one", "two"]), POOLS, min_size=1, max_size=1)


def read(pools: dict[str, Any]) -> ClusterDefinition:
    """Return a definition with these pools, in which a role of its own is not both stated and taken away."""
    for pool in pools.values():
        if "role" in pool.get("node_class", {}).get("spec", {}):
            pool["node_class"].pop("role", None)
    found = read_definition({"karpenter": {"cluster_name": "prod", "node_pools": pools}})
    assert found.definition is not None, found.problems
    return found.definition


@given(DEFINITIONS)
def test_what_is_rendered_and_imported_is_the_same(pools: dict[str, Any]) -> None:
    """A definition comes back as it was, through objects that a cluster accepts."""
    definition = read(pools)
    objects = render_definition(definition)

    assert not [p for each in objects for p in check_object(KINDS[each["apiVersion"], each["kind"]], each)]
    assert import_definition(objects) == definition


@given(DEFINITIONS)
def test_what_is_imported_and_rendered_is_the_same(pools: dict[str, Any]) -> None:
    """Objects come back as they were, through the text of a definition."""
    objects = render_definition(read(pools))
    written = msgspec.to_builtins(import_definition(objects))
    again = read_definition(written)

    assert again.definition is not None, again.problems
    assert again.warnings == ()
    assert render_definition(again.definition) == objects
