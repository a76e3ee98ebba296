"""What ``karpenter plan -f`` answers is what the operator's controllers do with the same cluster."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import ALL_LABEL_RULES, DO_NOT_DISRUPT, INSTANCE_TYPE, NODEPOOL, ZONE
from karpenter.api.meta import Condition, Resource, convert, to_plain
from karpenter.api.nodeclaim import NodeClaim, NodeClassReference
from karpenter.api.nodepool import Budget
from karpenter.api.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodCondition,
)
from karpenter.base.batcher import BatchWindow
from karpenter.cli.planning.decision import PlanDecision, decide
from karpenter.cli.planning.input import read_input
from karpenter.cloud.catalogs.ec2.volumes import node_class_of
from karpenter.controllers.disruption import DisruptionController, DisruptionQueue
from karpenter.controllers.executor import InlineExecutor
from karpenter.controllers.metrics.savings import SavingsMetrics
from karpenter.controllers.nodeclaim import Expiration
from karpenter.controllers.provisioner import Provisioner
from karpenter.core.disruption.command import EXPIRED
from karpenter.core.disruption.disrupt import DisruptionDecision
from karpenter.core.effects import CreateClaim, DeleteObject, Effect, Nominate
from karpenter.core.state.cluster import ClusterState, ObjectUpdated
from karpenter.operator.options import Settings, disruption_context, parse_settings, provisioning_settings
from karpenter.telemetry.metrics import Metrics
from tests.unit.controllers.harness import Noted
from tests.unit.core.disruption.clusters import MARKET, NOW, SIZES, machine, pod, pool
from tests.unit.telemetry.clocks import NOON, HandClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from karpenter.core.model.catalog import Catalog
    from karpenter.core.provisioning.provisioner import ProvisioningDecision

GROUP, KIND = "karpenter.k8s.aws", "EC2NodeClass"
CLASS = NodeClassReference(group=GROUP, kind=KIND, name="default")
CLASS_SPEC = {
    "role": "nodes",
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": [{"id": "subnet-0a1b2c3d"}],
    "securityGroupSelectorTerms": [{"id": "sg-0a1b2c3d"}],
}
DRIFTED = Condition(type="Drifted", status="True", reason="ImageDrift", last_transition_time=NOW)
NOT_READY = Condition(type="Ready", status="False", reason="Test", last_transition_time=NOW)
UNSCHEDULABLE = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")

pytestmark = pytest.mark.usefixtures("untraced")


class Cluster(msgspec.Struct, frozen=True):
    """A cluster, as an API server would list it, and the settings of the operator."""

    objects: tuple[Any, ...]
    node_class: dict[str, Any]
    settings: dict[str, str]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Return a small cluster with nodes, pods that run, and pods that are pending."""
    objects: list[Any] = [_pool(draw, "default"), _pool(draw, "other")]
    for number in range(draw(st.integers(0, 4))):
        objects += _machine(draw, f"node-{number}")
    for number in range(draw(st.sampled_from([0, 0, 1, 2, 4]))):
        objects.append(_pending(draw, number))
    ready = draw(st.sampled_from([None, "True", "True", "False", "Unknown"]))
    status = {"conditions": [{"type": "Ready", "status": ready}]} if ready else {}
    return Cluster(
        objects=tuple(objects),
        node_class={
            "apiVersion": f"{GROUP}/v1",
            "kind": KIND,
            "metadata": {"name": "default"},
            "spec": CLASS_SPEC,
            "status": status,
        },
        settings={
            "consolidation-strategy": draw(st.sampled_from(["global", "classic"])),
            "packing-policy": draw(st.sampled_from(["price", "greedy"])),
            "feature-gates": "SpotToSpotConsolidation=true" if draw(st.booleans()) else "",
        },
    )


def _pool(draw: st.DrawFn, name: str) -> Any:
    found = pool(
        name,
        ways=draw(st.sampled_from([("on-demand",), ("spot", "on-demand")])),
        consolidate_after=draw(st.sampled_from(["0s", "0s", "0s", "1h", "Never"])),
        budgets=(Budget(nodes=draw(st.sampled_from(["100%", "100%", "1", "0"]))),),
    )
    template = found.spec.template
    spec = msgspec.structs.replace(template.spec, node_class_ref=CLASS)
    return msgspec.structs.replace(
        found,
        spec=msgspec.structs.replace(
            found.spec,
            template=msgspec.structs.replace(template, spec=spec),
            limits={"cpu": draw(st.sampled_from(["8", "1000"]))},
            weight=draw(st.sampled_from([None, 10])),
        ),
        status=msgspec.structs.replace(
            found.status,
            conditions=draw(st.sampled_from([(), (), (NOT_READY,)])),
        ),
    )


def _machine(draw: st.DrawFn, name: str) -> Iterable[Resource]:
    found = machine(
        name,
        draw(st.sampled_from(list(SIZES))),
        pool=draw(st.sampled_from(["default", "default", "default", "other", "gone"])),
        zone=draw(st.sampled_from(["zone-1", "zone-2"])),
        bought=draw(st.sampled_from(["on-demand", "spot"])),
        expires=draw(st.sampled_from([*["Never"] * 9, "24h"])),
        conditions=draw(st.sampled_from([(), (), (DRIFTED,)])),
    )
    yield from (_served(each) if isinstance(each, NodeClaim) else each for each in found)
    for number in range(draw(st.integers(0, 3))):
        notes = draw(st.sampled_from([*[{}] * 9, {DO_NOT_DISRUPT: "true"}]))
        cpu = draw(st.sampled_from(["100m", "500m", "1"]))
        yield pod(f"{name}-{number}", name, cpu=cpu, annotations=notes)


def _served(claim: NodeClaim) -> NodeClaim:
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, node_class_ref=CLASS))


def _pending(draw: st.DrawFn, number: int) -> Pod:
    """Return a pod without a node, which kube-scheduler may or may not have looked at."""
    found = pod(f"web-{number}", cpu=draw(st.sampled_from(["100m", "1", "3", "900"])))
    chosen = draw(
        st.sampled_from(
            [
                None,
                None,
                NodeSelectorRequirement(key=NODEPOOL, operator="DoesNotExist"),
                NodeSelectorRequirement(key=NODEPOOL, operator="In", values=("other",)),
                NodeSelectorRequirement(key=ZONE, operator="In", values=("zone-2",)),
                NodeSelectorRequirement(key="team", operator="Exists"),
            ]
        )
    )
    if chosen is not None:
        terms = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(chosen,)),))
        affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=terms)
        spec = msgspec.structs.replace(found.spec, affinity=Affinity(node_affinity=affinity))
        found = msgspec.structs.replace(found, spec=spec)
    return _marked(found) if draw(st.booleans()) else found


def _marked(found: Pod) -> Pod:
    return msgspec.structs.replace(
        found, status=msgspec.structs.replace(found.status, conditions=(UNSCHEDULABLE,))
    )


def planned(cluster: Cluster, folder: Path) -> PlanDecision:
    """Return what ``karpenter plan -f`` answers about the manifests of a cluster."""
    documents = [
        {"apiVersion": each.api_version, "kind": each.kind, **to_plain(each)} for each in cluster.objects
    ]
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([cluster.node_class, *msgspec.to_builtins(documents)]))
    found = read_input([str(file)])
    assert found.problems == (), found.problems
    return decide(found.view, MARKET, _settings(cluster), NOW, disruption=True)


def _settings(cluster: Cluster) -> Settings:
    return parse_settings({name: value for name, value in cluster.settings.items() if value})


class Recording(Noted):
    """Notes what is to be carried out, and lets nominations and deletions of claims take effect."""

    async def perform(self, effects: Iterable[Effect]) -> None:
        """Note effects, and let some of them take effect."""
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, Nominate):
                self._state.nominate(effect.node, effect.until)
            elif isinstance(effect, DeleteObject) and effect.kind == "NodeClaim":
                claim = self._state.claim(effect.name)
                assert claim is not None
                meta = msgspec.structs.replace(claim.metadata, deletion_timestamp=NOW)
                self._state.apply(ObjectUpdated(msgspec.structs.replace(claim, metadata=meta)))

    async def create_claim(self, effect: CreateClaim) -> NodeClaim:
        """Note a claim; it does not come to the cluster, which stays the one that the plan was made for."""
        self.effects.append(effect)
        meta = msgspec.structs.replace(effect.claim.metadata, name=f"new-{len(self.effects)}")
        return msgspec.structs.replace(effect.claim, metadata=meta)


class Operator:
    """The controllers that decide, in a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.clock = HandClock()
        self.clock.seconds = (NOW - NOON).total_seconds()
        self.store = ClusterState(serves=[(GROUP, KIND)])
        found = node_class_of(convert(cluster.node_class, EC2NodeClass), GROUP, KIND)
        pods = (isinstance(each, Pod) and not each.spec.node_name for each in cluster.objects)
        objects = [
            _marked(o) if is_pending else o for o, is_pending in zip(cluster.objects, pods, strict=True)
        ]
        for each in (found, *objects):
            self.store.apply(ObjectUpdated(each))
        self.store.complete = True
        self.performer = Recording(self.store)
        self.decided: list[Any] = []
        self.expired: set[str] = set()
        chosen, deciding, metrics = _settings(cluster), asyncio.Lock(), Metrics(clock=self.clock)
        parts: dict[str, Any] = {
            "store": self.store,
            "performer": self.performer,
            "clock": self.clock,
            "metrics": metrics,
        }
        shared: dict[str, Any] = {"catalogs": self, "worker": self, "deciding": deciding}
        self.expiration = Expiration(self.store, self.performer, self.clock)
        self.provisioner = Provisioner(
            **parts,
            **shared,
            settings=provisioning_settings(chosen),
            window=BatchWindow(idle=1.0, longest=10.0),
        )
        parts["savings"] = SavingsMetrics(self.store, metrics, self)
        self.queue = DisruptionQueue(**parts, rules=ALL_LABEL_RULES, nominated_for=timedelta(seconds=20))
        self.disruption = DisruptionController(
            **parts,
            **shared,
            queue=self.queue,
            context=disruption_context(chosen),
            buffered=lambda: self.provisioner.memory.buffered,
        )

    @property
    def latest(self) -> Catalog:
        return MARKET

    async def of(self, pools: object) -> Catalog:
        del pools
        return MARKET

    async def run(self, compute: Callable[[], Any]) -> Any:
        found = await InlineExecutor().run(compute)
        self.decided.append(found)
        return found

    async def decide(self) -> tuple[ProvisioningDecision, DisruptionDecision]:
        """Let expired claims go, launch nodes for pending pods, and look for nodes to disrupt."""
        for name in tuple(self.store.view().claims):
            await self.expiration.reconcile(name)
        self.expired = {each.name for each in self.performer.effects if isinstance(each, DeleteObject)}
        await self.provisioner._decide()  # without waiting for a batch
        await self.disruption.look()
        first, second, *_ = self.decided
        assert isinstance(second, DisruptionDecision)
        return first, second


def _facts(claims: Iterable[CreateClaim]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(each.claim) for each in claims]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(cluster=clusters())
def test_a_plan_says_what_the_operator_does(cluster: Cluster, tmp_path_factory: Any) -> None:
    """Claims, pods without a place, pods that are skipped, commands and kept nodes are the same."""
    plan = planned(cluster, tmp_path_factory.mktemp("plan"))
    operator = Operator(cluster)
    provisioning, disruption = asyncio.run(operator.decide())
    assert plan.disruption is not None

    created = [each for each in operator.performer.effects if isinstance(each, CreateClaim)]
    assert _facts(created[: len(provisioning.claims)]) == _facts(plan.provisioning.claims)
    assert [_types(each) for each in provisioning.claims] == [
        set(node.instance_types) for node in plan.plan.new_nodes
    ]
    assert provisioning.refused == {each.pod for each in plan.plan.refusals if _is_pending(each.pod)}
    assert provisioning.skipped == tuple(each.pod for each in plan.skipped)
    assert provisioning.plan.placed == plan.plan.placed

    gone = operator.expired
    commands = plan.disruption.commands
    assert {name for each in commands if each.reason == EXPIRED for name in each.candidates} == gone
    assert [_command(each) for each in disruption.commands] == [
        _command(each) for each in commands if each.reason != EXPIRED
    ]
    assert [each for each in disruption.kept if each.node not in gone] == list(plan.disruption.kept)


def _is_pending(key: str) -> bool:
    return key.startswith("default/web-")


def _types(effect: CreateClaim) -> set[str]:
    by_key = {each.key: each for each in effect.claim.spec.requirements}
    return set(by_key[INSTANCE_TYPE].values)


def _command(command: Any) -> tuple[Any, ...]:
    bought = [(node.pool, node.instance_types, node.purchase) for node in command.replacements]
    return command.reason, command.candidates, bought, dict(command.moves)
