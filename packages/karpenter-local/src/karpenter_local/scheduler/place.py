"""
One pod's decision: the best feasible node, or the reasons why there is none.

Among equals the choice falls by a hash of the seed and the pod's name: it looks random, and it is the same
whenever the question is the same, whatever else was decided before.
"""

import hashlib

import msgspec

from karpenter_local.scheduler.filters import FitError, feasible, refusal
from karpenter_local.scheduler.nodetable import AssignedPod, NodeTable
from karpenter_local.scheduler.podinfo import PodInfo
from karpenter_local.scheduler.rows import Ints, Mask
from karpenter_local.scheduler.score import scores
from karpenter_local.scheduler.storage import NO_CLAIMS, PodVolumeClaims
from karpenter_local.scheduler.volumes import Binding


class Placed(msgspec.Struct, frozen=True):
    """The node that the pod gets."""

    node: str
    bindings: tuple[Binding, ...] = ()
    """What happens to its unbound claims there."""


def place(
    table: NodeTable,
    key: str,
    pod_info: PodInfo,
    *,
    seed: int,
    pod_volumes: PodVolumeClaims = NO_CLAIMS,
    nominated: str = "",
    expected: tuple[AssignedPod, ...] = (),
) -> Placed | FitError:
    """
    Decide where the pod called `key` goes.

    `nominated` is the node that room was made on for this pod; it is taken if it fits. `expected` are pods
    of at least its priority that room was made for elsewhere: the pod may not take that room, nor rely on
    their coming.
    """
    rows = feasible(table, pod_info, pod_volumes)
    if expected and rows.any():
        with table.supposing(having=expected):
            rows = rows & feasible(table, pod_info, pod_volumes)
    if not rows.any():
        return refusal(table, pod_info, pod_volumes)
    row = _pick(table, key, pod_info, rows, seed=seed, nominated=nominated)
    bindings = table.volumes.bindings(pod_volumes, row) if pod_volumes.to_bind else ()
    assert bindings is not None, "a feasible row has a volume for every claim"
    return Placed(table.rows.names[row], bindings)


def _pick(table: NodeTable, key: str, pod_info: PodInfo, rows: Mask, *, seed: int, nominated: str) -> int:
    nominated_row = table.rows.find(nominated) if nominated else None
    if nominated_row is not None and rows[nominated_row]:
        return nominated_row
    candidates: Ints = rows.nonzero()[0]
    if len(candidates) == 1:
        return int(candidates[0])
    total = scores(table, pod_info, rows)
    best = candidates[total == total.max()].tolist()
    if len(best) == 1:
        return int(best[0])
    best.sort(key=table.rows.names.__getitem__)
    return int(best[draw(seed, key) % len(best)])


def draw(seed: int, key: str) -> int:
    """Return a large number that depends on nothing but the arguments."""
    digest = hashlib.blake2b(f"{seed}/{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
