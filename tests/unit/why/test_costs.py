"""What namespaces, workloads and teams cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.why.costs import CostNode, CostPod, allocate_costs

GIB = 1024
# 4 cores and 16 GiB: cpu is 65.1 % of the price, memory 34.9 %.
NODE = CostNode(1.0, 4000, 16 * GIB)
CPU_PART = 4 * 0.031611 / (4 * 0.031611 + 16 * 0.004237)


def pod(workload: str, cpu: int = 1000, memory: int = 0, **facts: object) -> CostPod:
    return CostPod(node="n", workload=workload, cpu=cpu, memory=memory, **{"team": "", **facts})  # type: ignore[arg-type]


def test_a_pod_pays_for_its_share_of_cpu_and_of_memory() -> None:
    """A quarter of the cpu and half of the memory is a quarter and half of what each part costs."""
    found = allocate_costs({"n": NODE}, [pod("a/web", 1000, 8 * GIB)])

    assert found.workloads[0].hourly == round(CPU_PART / 4 + (1 - CPU_PART) / 2, 6)
    assert found.idle.hourly == round(1 - found.workloads[0].hourly, 6)


def test_daemonsets_are_overhead() -> None:
    """What DaemonSets request belongs to no workload, and is told apart from what is idle."""
    found = allocate_costs({"n": NODE}, [pod("kube-system/agent", 400, daemon=True), pod("a/web", 2000)])

    assert [each.name for each in found.namespaces] == ["a"]
    assert found.overhead.hourly == round(CPU_PART / 10, 6)
    assert found.total.monthly == 730.0


def test_a_gpu_is_most_of_its_node() -> None:
    """A pod that requests the only GPU of a node pays most of it, however little cpu it requests."""
    found = allocate_costs({"n": CostNode(3.0, 8000, 32 * GIB, 1)}, [pod("ml/train", 100, 0, gpus=1)])

    assert found.workloads[0].hourly > 2.0


def test_tables() -> None:
    """Pods are summed by namespace, workload and team, the dearest first."""
    pods = [pod("a/web", team="x"), pod("a/web", team="x"), pod("a/db", team="y"), pod("b/job", 500)]
    found = allocate_costs({"n": NODE}, pods, team_label="owner")

    assert [(each.name, each.pods, each.cpu) for each in found.namespaces] == [("a", 3, 3000), ("b", 1, 500)]
    assert [each.name for each in found.workloads] == ["a/web", "a/db", "b/job"]
    assert [each.name for each in found.teams] == ["x", "y", ""]
    assert found.team_label == "owner"


@pytest.mark.parametrize(
    ("node", "pods", "idle"),
    [
        pytest.param(CostNode(None, 4000, GIB), [pod("a/web")], 0.0, id="of a node without a price, nothing"),
        pytest.param(CostNode(1.0, 0, 0), [pod("a/web")], 1.0, id="of a node without a size, all is idle"),
        pytest.param(NODE, [], 1.0, id="of an empty node, all is idle"),
        pytest.param(NODE, [CostPod("", "a/web", "", 1000, 0)], 1.0, id="a pod that waits costs nothing"),
    ],
)
def test_what_is_not_known(node: CostNode, pods: list[CostPod], idle: float) -> None:
    """What has no price, no size or no node is in no share."""
    found = allocate_costs({"n": node}, pods)

    assert found.idle.hourly == idle
    assert found.unpriced == (node.hourly is None)
    assert sum(each.hourly for each in found.namespaces) == 0


SIZES = st.integers(0, 64_000)
NODES = st.dictionaries(
    st.sampled_from("abc"),
    st.builds(CostNode, st.floats(0, 50), SIZES, SIZES, st.integers(0, 8)),
    max_size=3,
)
PODS = st.lists(
    st.builds(
        CostPod,
        node=st.sampled_from(["a", "b", "c", ""]),
        workload=st.sampled_from(["x/web", "x/db", "y/job"]),
        team=st.sampled_from(["", "red", "blue"]),
        cpu=SIZES,
        memory=SIZES,
        gpus=st.integers(0, 4),
        daemon=st.booleans(),
    ),
    max_size=20,
)


@given(NODES, PODS)
def test_every_table_adds_up_to_the_bill(nodes: dict[str, CostNode], pods: list[CostPod]) -> None:
    """Shares, overhead and idle are the bill to the cent, whichever way it is divided; none is negative."""
    found = allocate_costs(nodes, pods)

    for table in (found.namespaces, found.workloads, found.teams):
        amounts = [*(each.monthly for each in table), found.overhead.monthly, found.idle.monthly]
        assert round(sum(amounts) * 100) == round(found.total.monthly * 100)
        assert min(amounts) >= 0
    assert abs(found.total.hourly - sum(node.hourly or 0.0 for node in nodes.values())) < 1e-5
