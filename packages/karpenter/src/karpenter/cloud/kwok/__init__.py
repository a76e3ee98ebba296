"""
A cloud in memory, for development, tests and simulations: its machines cost nothing and fail on request.

:class:`KwokCloud` has the machines and the offerings; it outlives an operator that is killed and started
again. :class:`KwokProvider` is the CloudProvider of one cluster on it. :class:`KwokControl` is for tests,
demos and simulations: it takes capacity away, loses responses, interrupts machines and lets them drift.

    cloud = KwokCloud(load_catalog("kwok"), nodes=nodes, clock=clock, chance=Random(1))
    provider = KwokProvider(cloud, classes=classes, cluster="demo")
    cloud.control.sell_out(zone="test-zone-a", capacity_type="spot")
"""

from karpenter.cloud.kwok.cloud import Behaviour, KwokCloud, KwokControl
from karpenter.cloud.kwok.cloudprovider import KwokProvider, NodeClassReader, NodeMaker
from karpenter.cloud.kwok.faults import Fail, Fault, Hang, LoseResponse, NeverJoin, ProviderCall, Slow

__all__ = [
    "Behaviour",
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
    "ProviderCall",
    "Slow",
]
