"""Conditions of node classes, as metrics and Events tell of them."""

from datetime import timedelta
from typing import Any

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.meta import Condition
from karpenter.cloud.aws.metrics import CLASS_CONDITIONS
from karpenter.cloud.aws.nodeclass.controller import NodeClassConditionMetrics
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import NOW, instrumented, virtually
from tests.unit.cloud.aws.world import simple_class


def ready(status: str, *, ago: float = 60.0) -> Condition:
    """Return the condition of a class that has stood so for some seconds."""
    moment = NOW - timedelta(seconds=ago)
    return Condition(type="Ready", status=status, reason="Ready", last_transition_time=moment)


def leaving(found: EC2NodeClass) -> EC2NodeClass:
    """Return a class that is on its way out for a minute."""
    asked = NOW - timedelta(minutes=1)
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, deletion_timestamp=asked)
    )


def told(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> Any:
    """Return the reasons that are announced, and the text of the metrics."""

    async def main(clock: VirtualClock) -> Any:
        provider_metrics, metrics = instrumented(clock)
        gauges = NodeClassConditionMetrics(provider_metrics, clock)
        assert gauges.seen(simple_class(conditions=before)) == ()
        effects = gauges.seen(simple_class(conditions=after))
        return [each.reason for each in effects], metrics.exposition().decode(), metrics

    return virtually(main)


def test_how_a_class_stands_is_shown() -> None:
    """With its status and since when."""
    _, text, _ = told((), (ready("True"),))

    labels = 'namespace="",name="default",type="Ready",status="True",reason="Ready"'
    assert f"operator_ec2nodeclass_status_condition_count{{{labels}}} 1" in text
    assert f"operator_ec2nodeclass_status_condition_current_status_seconds{{{labels}}} 60" in text
    older = f'{labels},kind="EC2NodeClass",group="karpenter.k8s.aws"'
    assert f"operator_status_condition_count{{{older}}} 1" in text
    assert f"operator_status_condition_current_status_seconds{{{older}}} 60" in text


def test_a_change_is_counted_and_told() -> None:
    """And how long it was otherwise."""
    reasons, text, metrics = told((ready("True", ago=100),), (ready("False", ago=40),))

    assert len(reasons) == 1
    counted = metrics[CLASS_CONDITIONS.transitions].value(type="Ready", status="False", reason="Ready")
    assert counted == 1.0
    assert 'status_condition_transition_seconds_sum{type="Ready",status="True"} 60' in text
    older = 'kind="EC2NodeClass",group="karpenter.k8s.aws"'
    was = f'operator_status_condition_transition_seconds_sum{{type="Ready",status="True",{older}}} 60'
    now = f'transitions_total{{type="Ready",status="False",reason="Ready",{older}}} 1'
    assert was in text
    assert f"operator_status_condition_{now}" in text


def test_what_is_the_same_is_no_news() -> None:
    """However often it is looked at."""
    reasons, _, metrics = told((ready("True"),), (ready("True"),))

    counted = metrics[CLASS_CONDITIONS.transitions].value(type="Ready", status="True", reason="Ready")
    assert (reasons, counted) == ([], 0.0)


def test_what_does_not_hold_at_birth_is_counted_but_not_told() -> None:
    """Every class begins like that."""
    reasons, _, metrics = told((), (ready("Unknown"),))

    counted = metrics[CLASS_CONDITIONS.transitions].value(type="Ready", status="Unknown", reason="Ready")
    assert (reasons, counted) == ([], 1.0)


def test_what_is_wrong_at_birth_is_told() -> None:
    """A class whose first look finds nothing is a class that someone has just written, and waits for."""
    assert told((), (ready("False"),))[0] == ["Ready"]


def test_a_class_that_leaves_is_shown_until_it_is_gone() -> None:
    """Then only how long it took is left."""

    async def main(clock: VirtualClock) -> list[str]:
        provider_metrics, metrics = instrumented(clock)
        gauges = NodeClassConditionMetrics(provider_metrics, clock)
        gauges.seen(leaving(simple_class(conditions=(ready("True"),))))
        before = metrics.exposition().decode()
        gauges.gone("default")
        gauges.gone("default")
        return [before, metrics.exposition().decode()]

    before, after = virtually(main)

    assert 'operator_ec2nodeclass_termination_current_time_seconds{namespace="",name="default"} 60' in before
    assert 'name="default"' not in after
    assert "operator_ec2nodeclass_termination_duration_seconds_sum 60" in after
    older = 'kind="EC2NodeClass",group="karpenter.k8s.aws"'
    assert f'operator_termination_current_time_seconds{{namespace="",name="default",{older}}} 60' in before
    assert f"operator_termination_duration_seconds_sum{{{older}}} 60" in after
