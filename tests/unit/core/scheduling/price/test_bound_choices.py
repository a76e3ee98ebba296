"""Many choices as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.price import bound
from karpenter.core.scheduling.price.bound import Item
from karpenter_local.testing.builders import instance_type, offering, pod, pool, problem

if TYPE_CHECKING:
    import pytest

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template

SMALL = instance_type("small", cpu=2, memory=4, sold=[offering("zone-1", "on-demand", 0.10)])
WIDE = instance_type("wide", cpu=4, memory=64, sold=[offering("zone-1", "on-demand", 0.30)])
DEAR = instance_type("dear", cpu=4, memory=8, sold=[offering("zone-1", "on-demand", 9.00)])
GIB = 2**30


def template() -> Template:
    """Return a pool of three machines; its axis is cpu, memory and pods."""
    return EncodedProblem(problem(pod("a"), pools=[pool("p", SMALL, WIDE, DEAR)])).templates[0]


def asked(cpu: int, memory: int, bits: int) -> Item:
    """Return pods of a size that may use some of the offerings, which are numbered as above."""
    return Item((cpu, memory * GIB, 1), (bits,))


def test_pods_are_settled_where_they_take_up_least_money() -> None:
    """Pods that want memory go to the machine that has it cheaply, others to where cpu is cheap."""
    lean, heavy = asked(1000, 1, 0b111), asked(500, 30, 0b011)

    found = bound.with_one_offering([lean, heavy], [40, 40], template())

    assert [item.bits for item in found] == [(0b001,), (0b010,)]
    assert [item.want for item in found] == [lean.want, heavy.want]


def test_pods_that_fit_none_of_the_few_keep_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that may use only a machine which few others need is settled on that."""
    monkeypatch.setattr(bound, "_FEW", 1)

    found = bound.with_one_offering([asked(1000, 1, 0b101), asked(1000, 1, 0b100)], [100, 1], template())

    assert [item.bits for item in found] == [(0b001,), (0b100,)]


def test_a_few_pods_go_where_most_of_the_money_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that would be cheaper elsewhere are settled on one of the few machines that they may use."""
    lean, heavy = asked(500, 2, 0b001), asked(100, 3, 0b011)
    assert bound.with_one_offering([lean, heavy], [100, 1], template())[1].bits == (0b010,)
    monkeypatch.setattr(bound, "_FEW", 1)

    found = bound.with_one_offering([lean, heavy], [100, 1], template())

    assert [item.bits for item in found] == [(0b001,), (0b001,)]
