"""Whole problems, put together from random supply and random demand."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from karpenter.api.pod import Pod, TopologySpreadConstraint
from karpenter.core.scheduling.problem import Options, PodVolumes, Problem
from karpenter_local.testing.builders import problem, replicas
from karpenter_local.testing.problems import demand, supply
from karpenter_local.testing.problems.described import Invented
from karpenter_local.testing.problems.mix import EVERYTHING, NAMESPACES, Mix, seldom


class _PodCopies(msgspec.Struct, frozen=True):
    """Pods of one template; those with volumes come last, so that only size tells pods apart before them."""

    pods: tuple[Pod, ...]
    volumes: dict[str, PodVolumes]
    defaults: dict[str, tuple[TopologySpreadConstraint, ...]]
    moved: bool


@st.composite
def problems(draw: st.DrawFn, mix: Mix = EVERYTHING) -> Problem:
    """Return a problem; every kind of thing in it is allowed by `mix`."""
    types = draw(supply.catalogues(mix))
    copies = draw(_copies(mix))
    whole = problem(
        *(each.pods for each in copies),
        pools=[supply.draw_pool(draw, mix, types, n) for n in range(draw(st.integers(1, mix.pools)))],
        nodes=[draw(supply.nodes(mix, n)) for n in range(draw(st.integers(0, mix.nodes)))],
        daemons=[draw(demand.daemons(mix, n)) for n in range(draw(st.integers(0, 2)))] if mix.daemons else [],
        volumes={key: volume for each in copies for key, volume in each.volumes.items()},
        namespaces={name: {"name": name} for name in NAMESPACES},
        spread_defaults={key: given for each in copies for key, given in each.defaults.items()},
        moved=[pod.key for each in copies if each.moved for pod in each.pods],
        options=draw(_options()),
    )
    return Invented(**{name: getattr(whole, name) for name in whole.__struct_fields__})


@st.composite
def _options(draw: st.DrawFn) -> Options:
    return Options(
        preferences=draw(st.sampled_from(("Respect", "Respect", "Ignore"))),
        min_values=draw(st.sampled_from(("Strict", "BestEffort"))),
        reserved=draw(st.sampled_from(("strict", "fallback"))),
        packing="greedy",
    )


@st.composite
def _copies(draw: st.DrawFn, mix: Mix) -> list[_PodCopies]:
    sizes = draw(
        st.lists(
            st.tuples(st.sampled_from(demand.CPUS), st.sampled_from(demand.MEMORIES)),
            min_size=1,
            max_size=mix.templates,
            unique_by=None if mix.same_sizes else (lambda size: size[0]),
        )
    )
    return [draw(_copies_of(mix, number, cpu, memory)) for number, (cpu, memory) in enumerate(sizes)]


@st.composite
def _copies_of(draw: st.DrawFn, mix: Mix, number: int, cpu: int, memory: str) -> _PodCopies:
    example = draw(demand.templates(mix, number, cpu, memory))
    pods = replicas(example, draw(st.integers(1, mix.pods)))
    with_volumes = draw(st.integers(0, 2)) if mix.volumes and draw(seldom(5)) else 0
    given: tuple[TopologySpreadConstraint, ...] = ()
    if mix.defaults and mix.spread and draw(seldom(8)):
        given = (draw(demand.spreads(mix, anyway=mix.preferences and draw(st.booleans()))),)
    return _PodCopies(
        pods,
        {pod.key: draw(demand.volumes(n)) for n, pod in enumerate(pods[len(pods) - with_volumes :])},
        dict.fromkeys((pod.key for pod in pods), given) if given else {},
        mix.savings and draw(seldom(6)),
    )
