"""
One pod's decision: the best feasible node, or the reasons why there is none.

Among equals the choice falls by a hash of the seed and the pod's name: it looks random, and it is the same
whenever the question is the same, whatever else was decided before.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from karpenter_local.scheduler.filters import FitError, feasible, feasible_at, refusal
from karpenter_local.scheduler.nodetable import AssignedPod, NodeTable
from karpenter_local.scheduler.podinfo import PodInfo
from karpenter_local.scheduler.rows import Ints, Mask
from karpenter_local.scheduler.score import scores
from karpenter_local.scheduler.storage import NO_CLAIMS, PodVolumeClaims
from karpenter_local.scheduler.volumes import Binding

Expected: TypeAlias = Callable[[str], Sequence[AssignedPod]]
"""The pods that were nominated for a node and are not there yet."""


def nothing_expected(node: str) -> Sequence[AssignedPod]:  # noqa: ARG001  of any node
    return ()


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
    expected: Expected = nothing_expected,
) -> Placed | FitError:
    """
    Decide where the pod called `key` goes.

    `nominated` is the node that it was nominated for: it is tried before any other. `expected` returns the
    pods of at least its priority that were nominated for a node: the pod may not take their room there, nor
    rely on their coming.
    """
    row = table.rows.find(nominated) if nominated else None
    if row is not None and _fits_beside(table, pod_info, pod_volumes, row, expected):
        return _placed(table, pod_volumes, row)
    rows = feasible(table, pod_info, pod_volumes)
    reserved: list[AssignedPod] = []
    while rows.any():
        row = _pick(table, key, pod_info, rows, seed=seed)
        if _fits_beside(table, pod_info, pod_volumes, row, expected, known=True):
            return _placed(table, pod_volumes, row)
        reserved += expected(table.rows.names[row])
        rows[row] = False
    with table.supposing(having=reserved):
        refused = refusal(table, pod_info, pod_volumes)
    return msgspec.structs.replace(refused, reserved=bool(reserved))


def _fits_beside(
    table: NodeTable,
    pod_info: PodInfo,
    pod_volumes: PodVolumeClaims,
    row: int,
    expected: Expected,
    *,
    known: bool = False,
) -> bool:
    """
    Whether the pod can go to a row, with the pods that are expected there and without.

    `known` says that it can go there without them.
    """
    if not known and not feasible_at(table, pod_info, pod_volumes, row):
        return False
    coming = expected(table.rows.names[row])
    if not coming:
        return True
    with table.supposing(having=coming):
        return feasible_at(table, pod_info, pod_volumes, row)


def _placed(table: NodeTable, pod_volumes: PodVolumeClaims, row: int) -> Placed:
    bindings = table.volumes.bindings(pod_volumes, row) if pod_volumes.to_bind else ()
    assert bindings is not None, "a feasible row has a volume for every claim"
    return Placed(table.rows.names[row], bindings)


def _pick(table: NodeTable, key: str, pod_info: PodInfo, rows: Mask, *, seed: int) -> int:
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
