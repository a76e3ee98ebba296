"""Whatever manifests hold, the doctor says something and does not break."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api.manifests import Document
from karpenter.cloud.aws.policy.lint import lint_policy
from karpenter.doctor.facts import AccessEntryFacts, DoctorFacts, FargateSelector, PodIdentityFacts
from karpenter.doctor.gather import charts_of
from karpenter.doctor.rules import diagnose
from tests.unit.doctor.test_gather import ARGO, FLUX, KUSTOMIZE
from tests.unit.doctor.test_identity import ACCOUNT, AWS_AUTH, BOTH
from tests.unit.doctor.test_installation import AUTOSCALER, COREDNS, NODE, OLD, WEBHOOK
from tests.unit.doctor.test_network import GROUPS, SUBNETS, queue, rules
from tests.unit.doctor.test_policies import OURS
from tests.unit.doctor.test_workloads import budget
from tests.unit.doctor.world import (
    CLASS,
    CONTROLLER,
    EKS,
    NODE_ROLE,
    OPERATOR,
    POOL,
    WORKLOAD,
    account,
    objects,
)

TEXTS = (POOL, CLASS, OPERATOR, WORKLOAD, NODE, COREDNS, AUTOSCALER, OLD, WEBHOOK, ACCOUNT, AWS_AUTH)
SOUND = objects(*TEXTS, budget("minAvailable: 1"), FLUX, ARGO, KUSTOMIZE)
AWS = account(
    zones=("us-west-2a",),
    subnets=SUBNETS,
    security_groups=GROUPS,
    roles=BOTH,
    instance_profiles={},
    oidc_providers=(),
    eks=EKS,
    pod_identities=(PodIdentityFacts(namespace="kube-system", service_account="karpenter", role=CONTROLLER),),
    access_entries=(AccessEntryFacts(principal=NODE_ROLE.arn, type="EC2_LINUX"),),
    addons=(),
    fargate=(FargateSelector(namespace="kube-system"),),
    queues=queue(["events.amazonaws.com"]),
    event_rules=rules("AWS Health Event"),
)
STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "x", "${X}", 0, -1, 3.5, True, [], {}, [None], ["x"], [[]], {"x": None}, [{}]]
)


def places(plain: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of everything in an object."""
    members = (
        plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    )
    return [path, *(below for key, value in members for below in places(value, (*path, key)))]


def put(plain: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of an object with something else at a path."""
    changed = copy.deepcopy(plain)
    found = changed
    for step in path[:-1]:
        found = found[step]
    found[path[-1]] = value
    return changed


CHANGEABLE = [
    (number, path)
    for number, each in enumerate(SOUND)
    for path in places(each.plain)
    if path and path not in {("apiVersion",), ("kind",)}
]


@settings(max_examples=60, deadline=None)
@given(where=st.sampled_from(CHANGEABLE), value=STRANGE)
def test_any_object_can_be_looked_at(where: tuple[int, tuple[Any, ...]], value: Any) -> None:
    """A manifest with something strange anywhere in it is judged like any other."""
    number, path = where
    changed = list(SOUND)
    changed[number] = Document("strange.yaml", put(SOUND[number].plain, path, value))
    known = DoctorFacts(
        objects=tuple(changed),
        live=True,
        kubernetes="1.33",
        charts=tuple(charts_of(changed)) or None,
        region="us-west-2",
        cluster="blue",
        aws=AWS,
    )

    assert diagnose(known).checked > 0


@settings(max_examples=40, deadline=None)
@given(data=st.data(), value=STRANGE)
def test_any_policy_can_be_linted(data: st.DataObject, value: Any) -> None:
    """A policy with something strange anywhere in it gets findings, not a traceback."""
    document = json.loads(data.draw(st.sampled_from(OURS)))
    path = data.draw(st.sampled_from([each for each in places(document) if each]))

    assert isinstance(lint_policy(json.dumps(put(document, path, value), indent=1)), tuple)


@settings(max_examples=40, deadline=None)
@given(text=st.text(alphabet='{}[]",:* \\n\t', max_size=40))
def test_any_text_can_be_linted(text: str) -> None:
    """A text that is no policy gets a finding with a place in it."""
    assert all(each.line >= 1 and each.column >= 1 for each in lint_policy(text))
