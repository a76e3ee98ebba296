"""
What a metric is: its name, its type, its labels, and what it means.

A declaration is data. It can be listed, checked and written into the documentation without anything being
measured; :mod:`.registry` turns it into an instrument that counts.

Some labels depend on the cloud provider: every label that it knows of a node, or one for each of its kinds of
node class. A declaration names these groups, and the registry puts the labels in.
"""

from collections.abc import Iterable, Mapping
from itertools import accumulate, repeat
from operator import mul
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import msgspec

from karpenter.api.labels import WELL_KNOWN_LABELS
from karpenter.telemetry.metrics.instruments import Age, Counter, Gauge, Histogram, Instrument, Summary

I_co = TypeVar("I_co", bound=Instrument, covariant=True)

WELL_KNOWN: Final = "<well-known labels>"
"""Stands for one label per well-known label of nodes."""

NODE_CLASSES: Final = "<node class labels>"
"""Stands for one label per kind of node class that the provider supports."""

KINDS: Final[Mapping[type[Instrument], str]] = MappingProxyType(
    {Counter: "counter", Gauge: "gauge", Age: "gauge", Histogram: "histogram", Summary: "summary"}
)


class Declared(msgspec.Struct, Generic[I_co], frozen=True, kw_only=True):
    """One metric."""

    name: str
    instrument: type[I_co]
    help: str
    """What it measures, in one sentence."""

    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    seeds: tuple[tuple[str, ...], ...] = ()
    """Label values that are shown from the start, at zero."""

    @property
    def kind(self) -> str:
        """counter, gauge, histogram or summary."""
        return KINDS[self.instrument]

    @property
    def unlike_its_type(self) -> bool:
        """Whether the name ends like that of another type; such names are kept for compatibility."""
        ends_like_counter = self.name.endswith("_total") and self.kind != "counter"
        ends_like_summary = self.name.endswith(("_count", "_sum", "_bucket"))
        return ends_like_counter or ends_like_summary


class ProviderLabels(msgspec.Struct, frozen=True, kw_only=True):
    """The labels of metrics that depend on the provider."""

    well_known: frozenset[str] = WELL_KNOWN_LABELS
    """Label keys of nodes."""

    node_classes: tuple[str, ...] = ()
    """Label keys by which claims name their class, one for each kind of class."""

    def expand(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Return the labels with the groups put in."""
        groups = {
            WELL_KNOWN: tuple(sorted({short_label(key) for key in self.well_known})),
            NODE_CLASSES: tuple(full_label(key) for key in self.node_classes),
        }
        return tuple(each for label in labels for each in groups.get(label, (label,)))

    def of_node(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the values of the well-known labels of a node; empty for those that it lacks."""
        values = dict.fromkeys((short_label(key) for key in self.well_known), "")
        for key in sorted(self.well_known & labels.keys()):
            values[short_label(key)] = values[short_label(key)] or labels[key]
        return values


def short_label(key: str) -> str:
    """Return what a node label is called on a metric: what is behind its domain, with underscores."""
    return key.rpartition("/")[2].lower().replace("-", "_").replace(".", "_")


def full_label(key: str) -> str:
    """Return what a node label is called on a metric that keeps its domain."""
    return key.translate(str.maketrans("./-", "___"))


def counter(
    name: str, meaning: str, *labels: str, seeds: tuple[tuple[str, ...], ...] = ()
) -> Declared[Counter]:
    """Declare something that is only ever counted up."""
    return Declared(name=name, instrument=Counter, help=meaning, labels=labels, seeds=seeds)


def gauge(name: str, meaning: str, *labels: str) -> Declared[Gauge]:
    """Declare something that goes up and down."""
    return Declared(name=name, instrument=Gauge, help=meaning, labels=labels)


def age(name: str, meaning: str, *labels: str) -> Declared[Age]:
    """Declare for how long something has been so."""
    return Declared(name=name, instrument=Age, help=meaning, labels=labels)


def histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...]) -> Declared[Histogram]:
    """Declare something whose values are counted in buckets."""
    return Declared(name=name, instrument=Histogram, help=meaning, labels=labels, buckets=buckets)


def summary(name: str, meaning: str, *labels: str) -> Declared[Summary]:
    """Declare something whose quantiles over the last minutes are shown."""
    return Declared(name=name, instrument=Summary, help=meaning, labels=labels, quantiles=QUANTILES)


def doubling(first: float, count: int) -> tuple[float, ...]:
    """Return so many buckets, each twice as wide as the one before."""
    return tuple(accumulate(repeat(2.0, count - 1), mul, initial=first))


QUANTILES: Final = (0.0, 0.5, 0.9, 0.99, 1.0)

# fmt: off
DURATIONS: Final = (
    .005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1.0, 1.25, 1.5, 1.75, 2.0,
    2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
)
"""Seconds, for whatever happens to pods, to decisions and to claims."""
# fmt: on

CALLS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds, for calls over the network: what every Prometheus client has by default."""

TRANSITIONS: Final = doubling(0.5, 15)
"""Seconds that a condition was in a state."""

_MINUTE: Final = 60.0
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR

LIFETIMES: Final = (
    *(minutes * _MINUTE for minutes in (15, 30, 45)),
    *(hours * _HOUR for hours in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
    *(days * _DAY for days in (1, 2, 3, 5, 10, 15, 20, 25, 30)),
)
"""Seconds that a node has lived."""
