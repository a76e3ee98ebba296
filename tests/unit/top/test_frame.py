from __future__ import annotations

import msgspec
import pytest

from karpenter.top.advice import Advice, LastDecision, NodeAdvice
from karpenter.top.frame import TopFrame
from karpenter.top.model import node_rows
from karpenter.top.pending import PendingPod
from karpenter.top.snapshot import TopOptions, TopSnapshot, take
from tests.unit.top.clusters import NOW, ago, node, pod, printed, view

LABELS = {
    "node.kubernetes.io/instance-type": "m5.xlarge",
    "karpenter.sh/capacity-type": "on-demand",
    "karpenter.sh/nodepool": "default",
    "topology.kubernetes.io/zone": "us-east-1a",
}


def _snapshot(count: int = 30, options: TopOptions | None = None, *, advised: bool = False) -> TopSnapshot:
    nodes = [
        node(f"ip-10-0-1-{number}.ec2.internal", LABELS, created=ago(minutes=number))
        for number in range(1, count + 1)
    ]
    seen = view(*nodes, *(pod(f"p{number}", nodes[0].name) for number in range(2) if nodes), pod("waits"))
    advice = Advice(
        nodes={
            each.name: NodeAdvice(goes=False, code="Budget", sentence=f"It stays: {'a reason ' * 12}.")
            for each in nodes
        },
        pending=(PendingPod(pod="default/waits", count=1, sentence="It will run on node a."),),
    )
    told = LastDecision(at=NOW, reason="Launched", object="nodeclaim/a", message="Launched: m5.xlarge")
    return take(
        seen,
        node_rows(seen, lambda _: 0.192),
        options or TopOptions(),
        NOW,
        advice=advice if advised else None,
        decisions=(told,),
    )


def _drawn(frame: TopFrame, snapshot: TopSnapshot, width: int = 80, height: int = 24) -> list[str]:
    return printed(frame.draw(snapshot, width, height), width)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (160, 50), (40, 12)])
@pytest.mark.parametrize("view_name", ["nodes", "stays", "pending", "decisions", "costs"])
def test_a_frame_fits_the_screen(width: int, height: int, view_name: str) -> None:
    """However small the terminal is, no line is too long and the last one is there."""
    frame = TopFrame(TopOptions())
    frame.view = view_name
    lines = _drawn(frame, _snapshot(advised=True), width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height
    assert lines[-1].startswith("←/→ page")


def test_the_first_lines_are_the_sums() -> None:
    """Nodes, what is requested of what there is, its share, the bar, the bill, and the pods."""
    first, second, *_ = _drawn(TopFrame(TopOptions()), _snapshot(2), 120)
    assert first.startswith("2 nodes  (         2/8)  25.0%  cpu  ██████████░░░░")
    assert first.rstrip().endswith("$0.384/hour | $280.320/month")
    assert second.startswith("3 pods (1 pending 2 running 2 bound)")


def test_a_row_says_what_the_viewer_says() -> None:
    """Name, resource, bar, pods, type and price, how it was bought, readiness; and the pool and the zone."""
    (row,) = [line for line in _drawn(TopFrame(TopOptions()), _snapshot(1), 160) if line.startswith("ip-10")]
    words = row.split()
    assert words[:2] == ["ip-10-0-1-1.ec2.internal", "cpu"]
    assert " 50%  (2/58 pods)  m5.xlarge/$0.1920  On-Demand  Ready  default  us-east-1a" in row
    assert words[-1] == "140.16"


def test_without_prices() -> None:
    """With --disable-pricing no amount of money is shown."""
    options = TopOptions(pricing=False)
    assert "$" not in "".join(_drawn(TopFrame(options), _snapshot(2, options), 160))


def test_each_resource_has_a_line() -> None:
    """Further resources are on lines below, without name and price."""
    options = TopOptions(resources=("cpu", "memory"))
    lines = _drawn(TopFrame(options), _snapshot(1, options), 120)
    assert lines[1].split()[:3] == ["2Gi/16Gi", "12.5%", "memory"]
    assert [line.split()[0] for line in lines[4:6]] == ["ip-10-0-1-1", "memory"]


def test_without_nodes() -> None:
    """An empty cluster says that it waits."""
    assert "Waiting for update or no nodes found..." in _drawn(TopFrame(TopOptions()), _snapshot(0))


def test_pages() -> None:
    """Pages hold what fits, have a dot each, stop at their ends, and go when their nodes do."""
    frame = TopFrame(TopOptions())
    lines = _drawn(frame, _snapshot(30, advised=True))
    assert (frame.pages, lines[-2].strip()) == (2, "•·")
    frame.turn(5)
    assert _drawn(frame, _snapshot(30, advised=True))[-2].strip() == "·•"
    _drawn(frame, _snapshot(2, advised=True))
    assert (frame.page, frame.pages) == (0, 1)
    assert "page 1/19" in _drawn(frame, _snapshot(300))[-2]


def test_the_order_can_be_changed() -> None:
    """The key goes through what rows can be sorted by, and another turns the order round."""
    frame = TopFrame(TopOptions())
    seen = []
    for _ in range(9):
        frame.next_sort()
        seen.append(str(frame.options.order))
    assert seen[:4] == ["name=asc", "price=dsc", "cpu=dsc", "memory=dsc"]
    assert seen[-1] == "creation=dsc"
    frame.reverse()
    assert str(frame.options.order) == "creation=asc"


def test_words_are_typed() -> None:
    """Letters are added, backspace takes one away, enter keeps the words and escape drops them."""
    frame = TopFrame(TopOptions())
    frame.is_typing = True
    for key, character in (("a", "a"), ("x", "x"), ("backspace", None), ("space", " "), ("b", "b")):
        frame.type(key, character)
    assert "/a b█" in _drawn(frame, _snapshot(1))[-1]
    frame.type("enter", "\r")
    assert "filter: a b" in _drawn(frame, _snapshot(1), 120)[-1]
    assert frame.back()
    assert not frame.words
    assert not frame.back()


def test_help_names_the_keys() -> None:
    """The help is left the way it came."""
    frame = TopFrame(TopOptions())
    frame.is_helping = True
    lines = _drawn(frame, _snapshot(1))
    assert any(line.startswith("q ctrl+c") for line in lines)
    assert not any("…" in line for line in lines)
    assert frame.back()


HUGE = PendingPod(
    pod="default/huge-0",
    workload="default/huge",
    count=3000,
    sentence=f"It waits and has no place: NodePool critical: {'a long reason ' * 30}",
    cause="wants cpu 900, the most is 16 on m5.4xlarge (NodePool general)",
)


@pytest.mark.parametrize(
    ("width", "height", "shown"),
    [
        pytest.param(80, 24, "huge x 3,000  wants cpu 900, the most is 16", id="the cause on a small screen"),
        pytest.param(160, 50, "huge x 3,000  NodePool critical: a long", id="all reasons on a large one"),
    ],
)
def test_reasons_take_the_lines_that_are_left(width: int, height: int, shown: str) -> None:
    """Below the nodes, pods that wait say as much of their reason as there are lines for."""
    snapshot = msgspec.structs.replace(_snapshot(12, advised=True), pending=(HUGE,))
    lines = _drawn(TopFrame(TopOptions()), snapshot, width, height)

    assert any(line.startswith(shown) for line in lines)
    assert len(lines) <= height
    assert any("a reason a reason" in line for line in lines) == (height == 50)


def test_costs_are_a_list() -> None:
    """What workloads cost, idle and overhead is a list whose last row is the bill."""
    frame = TopFrame(TopOptions())
    frame.list_view(5)
    lines = [line.split() for line in _drawn(frame, _snapshot(2), 120)]
    amounts = {words[0]: words[1] for words in lines if len(words) > 2 and words[2].endswith("%")}

    assert list(amounts) == ["default/p0", "default/p1", "idle", "overhead"]
    assert ["the", "bill", "280.32", "100.0%"] in lines
    assert round(sum(float(each) for each in amounts.values()), 2) == 280.32
