"""Laws of resource lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from karpenter.base.quantity import QuantityError
from karpenter.core.model.resources import (
    add,
    fits,
    maximum,
    merge,
    parse_resources,
    render_resources,
    subtract,
)

names = st.sampled_from(["cpu", "memory", "pods", "hugepages-2Mi", "example.com/gpu"])
lists = st.dictionaries(names, st.integers(-(2**70), 2**70))
amounts = st.dictionaries(names, st.integers(0, 2**40))


@given(lists)
def test_printed_lists_read_back(resources: dict[str, int]) -> None:
    """Printing a list and reading it gives the same list."""
    assert parse_resources(render_resources(resources)) == resources


@given(lists, lists, lists)
def test_addition_is_a_sum(a: dict[str, int], b: dict[str, int], c: dict[str, int]) -> None:
    """Addition is commutative and associative, and merging is adding many times."""
    assert add(add(a, b), c) == add(c, add(b, a)) == merge([b, c, a])


@given(lists, lists)
def test_subtraction_undoes_addition(a: dict[str, int], b: dict[str, int]) -> None:
    """What was added can be taken away again; resources that came with it stay, at nothing."""
    assert subtract(add(a, b), b) == {name: a.get(name, 0) for name in a | b}


@given(lists, lists)
def test_maximum_is_a_least_upper_bound(a: dict[str, int], b: dict[str, int]) -> None:
    """The maximum covers both sides, and each of its amounts is on one of them."""
    top = maximum(a, b)

    assert top.keys() == a.keys() | b.keys()
    assert all(top[name] == max(side[name] for side in (a, b) if name in side) for name in top)


@given(amounts, amounts)
def test_fitting_leaves_no_debt(candidate: dict[str, int], total: dict[str, int]) -> None:
    """A candidate fits exactly when taking it away leaves nothing below zero."""
    left = subtract({name: total.get(name, 0) for name in total | candidate}, candidate)

    assert fits(candidate, total) == all(amount >= 0 for amount in left.values())


@given(amounts, amounts, amounts)
def test_what_fits_in_parts_fits_together(
    a: dict[str, int], b: dict[str, int], total: dict[str, int]
) -> None:
    """Two candidates fit together exactly when the second fits in what the first leaves."""
    whole = {name: total.get(name, 0) for name in total | a | b}

    assert fits(add(a, b), whole) == (fits(a, whole) and fits(b, subtract(whole, a)))


@given(lists, lists)
def test_arguments_stay_untouched(a: dict[str, int], b: dict[str, int]) -> None:
    """No operation changes what it is given."""
    before = (dict(a), dict(b))
    for operation in (add, subtract, maximum, fits):
        operation(a, b)

    assert (a, b) == before


wild = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(
        st.one_of(st.text(max_size=8), st.integers(), st.none(), st.binary(max_size=3)),
        st.one_of(
            st.text(max_size=8), st.integers(), st.floats(), st.none(), st.lists(st.none(), max_size=1)
        ),
        max_size=3,
    ),
)


def answer(value: object) -> str:
    """Return what comes of `value`: the list it reads as, or the sentence that refuses it."""
    try:
        return str(parse_resources(value))  # type: ignore[arg-type]
    except QuantityError as error:
        return str(error)


@given(wild)
def test_garbage_is_read_or_refused(value: object) -> None:
    """Whatever comes in, either a list or one sentence comes out."""
    assert "\n" not in answer(value)
