from hypothesis import given
from hypothesis import strategies as st

from karpenter_local.apiserver.managed.sets import SELF, Set, difference, intersection, union, without

Path = tuple[str, ...]

PATHS = st.frozensets(
    st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":1}']), min_size=1, max_size=3).map(tuple), max_size=6
)


def build(paths: frozenset[Path]) -> Set:
    """Return the set whose members are `paths`, the slow and obvious way."""
    root: Set = {}
    for path in paths:
        node = root
        for step in path:
            node = node.setdefault(step, {})
    for path in paths:
        node = root
        for step in path:
            node = node[step]
        if node:
            node[SELF] = {}
    return root


def members(node: Set, prefix: Path = ()) -> frozenset[Path]:
    found: set[Path] = set()
    for step, below in node.items():
        if step == SELF:
            continue
        if not below or SELF in below:
            found.add((*prefix, step))
        found |= members(below, (*prefix, step))
    return frozenset(found)


@given(paths=PATHS)
def test_a_set_holds_what_was_put_in(paths: frozenset[Path]) -> None:
    """Building and relaxation are each other's inverse."""
    assert members(build(paths)) == paths


@given(a=PATHS, b=PATHS)
def test_the_algebra_is_that_of_sets(a: frozenset[Path], b: frozenset[Path]) -> None:
    """Union, intersection and difference of trees are those of the paths in them."""
    left, right = build(a), build(b)

    assert members(union(left, right)) == a | b
    assert members(intersection(left, right)) == a & b
    assert members(difference(left, right)) == a - b


@given(a=PATHS, b=PATHS)
def test_without_removes_whole_branches(a: frozenset[Path], b: frozenset[Path]) -> None:
    """A member of the right side takes everything beneath it along."""
    kept = {path for path in a if not any(path[: len(other)] == other for other in b)}

    assert members(without(build(a), build(b))) == kept
