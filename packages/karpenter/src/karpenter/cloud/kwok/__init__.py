"""
A cloud in memory: machines that cost nothing and misbehave on request.

:class:`KwokCloud` is the world: its machines, its stock, its memory. It lives on when the operator is
killed and started again. :class:`KwokProvider` is the operator's client of it, and :class:`KwokControl` the
hand of whoever tests, shows or simulates: it sells offerings out, loses answers, interrupts machines and
lets them drift.

    cloud = KwokCloud(load_catalog("kwok"), nodes=nodes, clock=clock, chance=Random(1))
    provider = KwokProvider(cloud, classes=classes, cluster="demo")
    cloud.control.sell_out(zone="test-zone-a", capacity_type="spot")
"""

from karpenter.cloud.kwok.cloud import Behaviour, KwokCloud, KwokControl
from karpenter.cloud.kwok.cloudprovider import KwokProvider, NodeClassReader, NodeMaker
from karpenter.cloud.kwok.faults import Fail, Fault, Hang, LoseResponse, NeverJoin, ProviderCall, Slow

__all__ = [
    "Behaviour",
    "ProviderCall",
    "Fail",
    "Fault",
    "Hang",
    "KwokCloud",
    "KwokControl",
    "KwokProvider",
    "LoseResponse",
    "NeverJoin",
    "NodeClassReader",
    "NodeMaker",
    "Slow",
]
